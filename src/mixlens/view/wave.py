"""An `Attribution` of a sound as its wave: for pages and as a figure."""

from __future__ import annotations

from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from PIL import Image

from mixlens.capture.sound import Sound
from mixlens.view.kit import arrays, caption, colors, figures, wave
from mixlens.view.kit import picture as kit
from mixlens.view.kit.drawn import Attribution
from mixlens.view.kit.fonts import drawable
from mixlens.view.kit.style import points, refuse_cmap, usual_map

_WIDTH, _HEIGHT = 7.0, 2.2  # inches


def uri(attr: Attribution) -> str | None:
    """The wave as a data URI; None of what is no sound."""
    return kit.uri(_drawn(attr)[0]) if isinstance(attr.source, Sound) else None


def figure(attr: Attribution) -> Figure:
    """The wave on the colours of its words, or of its frames where no words are known."""
    sound = attr.source
    assert isinstance(sound, Sound)
    refuse_cmap("a wave")
    drawn, named, hues = _drawn(attr)
    says = caption.says(attr)
    drawing, axes = figures.canvas(_WIDTH, _HEIGHT, caption.heading(attr) + (f"\n{says}" if says else ""))
    axes.imshow(drawn, extent=(0, sound.seconds, -1, 1), aspect="auto", interpolation="nearest")
    axes.set_yticks([])
    axes.set_xlabel("seconds", fontsize=points(8))
    axes.tick_params(labelsize=points(8))
    for name, (start, end) in named:
        axes.text((start + end) / 2, 1.06, drawable(name), ha="center", va="bottom", fontsize=points(8))
    low, high = hues.ends()
    bar = drawing.colorbar(ScalarMappable(Normalize(low, high or 1.0), usual_map(hues.signed)), ax=axes, aspect=12)
    bar.set_label("score of a word" if named else "score of a frame", fontsize=points(8))
    bar.ax.tick_params(labelsize=points(8))
    return drawing


def _drawn(attr: Attribution) -> tuple[Image.Image, list[tuple[str, tuple[float, float]]], colors.Scale]:
    """The wave, the words with their times, and the scale of the colours."""
    sound = attr.source
    assert isinstance(sound, Sound)
    each = arrays.values(attr.scores).tolist()
    groups: list[tuple[int, ...]] = [(i,) for i in range(len(sound))]
    special: list[bool] = list(sound.special)
    named: list[tuple[str, tuple[float, float]]] = []
    if sound.has_words:
        units = attr.units()
        groups, special = [u.indices for u in units], [u.special for u in units]
        named = [(u.text, (u.place[0], u.place[1])) for u in units if u.place is not None and not u.special]
    scores = [sum(each[i] for i in group) for group in groups]
    hues = colors.scale([s for s, apart in zip(scores, special, strict=True) if not apart] or scores)
    return wave.heat(sound, wave.stretches(sound, groups), scores, special, hues), named, hues

"""How a figure looks: what its caller says, else matplotlib's own settings, else ours.

`font.family` and `font.size` are matplotlib's (10 points: the sizes that the figures' own numbers are for), so that
`matplotlib.style.use` reaches the figures; `mixlens.view.paper` is a style for the columns of a paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, TypedDict

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex

from mixlens.arguments import is_number, shown
from mixlens.errors import UnknownOption, did_you_mean
from mixlens.view.kit import colors

_USUAL = 10.0  # points of text: matplotlib's own default
DPI = 150
_HINT = 300  # characters of an error that lists families


class Look(TypedDict, total=False):
    """What every `plot` takes, all optional.

    `size`: width and height in inches. `dpi`: dots an inch of a PNG. `font`: a family that is installed; `fontsize`: in
    points, 10 being the usual; matplotlib's `font.family` and `font.size` by default. `cmap`: a colour map of
    matplotlib or its name. `title`: in place of the figure's own; "": none. `ax`: Axes to draw into, for figures of
    one; its figure is the caller's to save, and has its own size.
    """

    size: tuple[float, float]
    dpi: float
    font: str
    fontsize: float
    cmap: str | Colormap
    title: str
    ax: Axes


@dataclass(frozen=True)
class Style:
    """A `Look` that was checked."""

    size: tuple[float, float] | None = None
    dpi: float = DPI
    font: str | None = None
    fontsize: float | None = None
    cmap: Colormap | None = None
    title: str | None = None
    ax: Axes | None = None


_USUAL_STYLE = Style()
_STYLE: ContextVar[Style] = ContextVar("style", default=_USUAL_STYLE)


def current() -> Style:
    """That of the figure that is being drawn."""
    return _STYLE.get()


def style_of(look: Mapping[str, Any]) -> Style:
    """The style that a caller's words mean. Raises UnknownOption."""
    known = [field.name for field in fields(Style)]
    for name in look:
        if name not in known:
            raise UnknownOption(f"plot has no option {name!r}{did_you_mean(name, known)}")
    given = {name: value for name, value in look.items() if value is not None}
    size = given.get("size")
    if size is not None:
        numbers = isinstance(size, (tuple, list)) and len(size) == 2 and all(is_number(side) for side in size)
        if not numbers or not all(0.5 <= side <= 100 for side in size):
            raise UnknownOption(f"expected size=(width, height), inches of 0.5 to 100, got {shown(size)}")
        given["size"] = (float(size[0]), float(size[1]))
    for name, low, high in (("dpi", 30, 2400), ("fontsize", 3, 100)):  # below, letters are no dot high
        if name in given and not (is_number(given[name]) and low <= given[name] <= high):
            raise UnknownOption(f"expected {name}= a number of {low} to {high}, got {shown(given[name])}")
    if "title" in given and not isinstance(given["title"], str):
        raise UnknownOption(f"expected title= a str, got {shown(given['title'])}")
    if "ax" in given:
        _refuse_axes(given["ax"])
    if "ax" in given and "size" in given:
        raise UnknownOption("expected ax= or size=, got both: the figure of given Axes has a size")
    if "font" in given:
        given["font"] = _family(given["font"])
    if "cmap" in given:
        given["cmap"] = _map(given["cmap"])
    return Style(**given)


@contextmanager
def styled(style: Style) -> Iterator[None]:
    """What is drawn here has that style."""
    token = _STYLE.set(style)
    try:
        yield
    finally:
        _STYLE.reset(token)


def points(size: float) -> float:
    """A size of text, scaled as the caller or matplotlib's settings say."""
    usual = current().fontsize or font_manager.FontProperties(size=matplotlib.rcParams["font.size"]).get_size()
    return size * usual / _USUAL


def first_families() -> list[str]:
    """The families to draw with before those that have what they lack: the caller's, else matplotlib's setting's."""
    settings: Any = matplotlib.rcParams
    font = current().font
    names = [font] if font is not None else list(settings["font.family"])
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    spread = [name for family in names for name in settings.get(f"font.{family}", [family])]
    return [name for name in spread if name in installed][:1]


def usual_map(signed: bool) -> Colormap:
    """The one colour scale of pages, terminal and figures."""
    return LinearSegmentedColormap.from_list("mixlens", colors.stops(signed))


def color_map(signed: bool) -> Colormap:
    """The caller's, or ours."""
    return current().cmap or usual_map(signed)


def refuse_cmap(figure: str) -> None:
    """Raises UnknownOption where a picture has colours that pages have too."""
    if current().cmap is not None:
        raise UnknownOption(f"cmap= would be ignored: {figure} has the colours of its page")


def strong(score: float) -> str:
    """The colour of a bar, whose length says the size: the end of its sign's arm."""
    given = current().cmap
    if given is None:
        return f"#{colors.strong(score)}"
    return to_hex(given(0.1 if score < 0 else 0.9))


def ground(scale: colors.Scale, score: float) -> tuple[str, str]:
    """The colour behind a word, and its ink's."""
    given = current().cmap
    if given is None:
        return f"#{scale.hex(score)}", f"#{scale.ink(score)}"
    share = scale.share(score)
    red, green, blue, _ = given((share + 1) / 2 if scale.signed else share)
    return to_hex((red, green, blue)), f"#{colors.ink((round(255 * red), round(255 * green), round(255 * blue)))}"


def _refuse_axes(axes: Any) -> None:
    """Raises UnknownOption for what no figure can be drawn into."""
    if not isinstance(axes, Axes):
        raise UnknownOption(f"expected ax= Axes of matplotlib, got {shown(axes)}")
    if axes.name != "rectilinear":
        raise UnknownOption(f"expected ax= Axes with an x and a y axis, got {axes.name} ones; add a plain subplot")
    if (scales := {axes.get_xscale(), axes.get_yscale()}) != {"linear"}:
        raise UnknownOption(f"expected ax= Axes with linear scales, got {' and '.join(sorted(scales))}")
    if axes.get_figure() is None:
        raise UnknownOption("expected ax= Axes of a figure, got some that were removed from theirs")


def _family(name: Any) -> str:
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    generic = {"serif", "sans-serif", "monospace", "cursive", "fantasy"}
    if not isinstance(name, str) or name not in installed | generic:
        raise UnknownOption(
            "expected font= the name of an installed family, or serif, sans-serif or monospace, which always are; "
            f"got {shown(name)}{_near(name, installed)}"
        )
    return name


def _near(name: Any, installed: set[str]) -> str:
    """What the error says of the names that there are: a near one, or as many as a message holds."""
    hint = did_you_mean(name, installed) if isinstance(name, str) else ""
    if len(hint) <= _HINT:
        return hint
    whole = hint[:_HINT].rpartition(", ")[0]
    return f"{whole} and {len(installed) - whole.count(', ') - 1} more"


def _map(name: Any) -> Colormap:
    if isinstance(name, Colormap):
        return name
    if not isinstance(name, str) or name not in matplotlib.colormaps:
        hint = did_you_mean(name, list(matplotlib.colormaps)) if isinstance(name, str) else ""
        raise UnknownOption(f"expected cmap= a colour map of matplotlib, or its name, got {shown(name)}{hint[:300]}")
    return matplotlib.colormaps[name]

"""The models that a page offers: embedded ones and those that were named when the server was started."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mixlens import embedded, embedded_llm, embedded_pictures, embedded_sounds
from mixlens.architectures import TEXT
from mixlens.capture.picture import PIXELS
from mixlens.errors import InputError
from mixlens.subject import TwoTowers

if TYPE_CHECKING:
    from mixlens.app.verbs import Verb
    from mixlens.lens import Lens

KEPT = 2  # models in memory
TEXTS = ("explain", "compare", "map")
PICTURES = ("picture", "picture-compare", "picture-map")
SOUNDS = ("sound", "sound-map")
EMBEDDED = {  # name -> what it is, and the verbs that it answers
    embedded.DEFAULT: ("sentiment of a review", TEXTS),
    "sst2_cut": ("sentiment, three layers", TEXTS),
    "inference": ("does the second text follow from the first?", TEXTS),
    "paraphrase": ("do two texts say the same?", TEXTS),
    "hate": ("hateful or offensive?", TEXTS),
    "verb_number": ("is the verb singular or plural?", TEXTS),
    "masked_verb": ("fills in a [MASK]", TEXTS),
    "agreement": ("fills in a [MASK], trained on agreement", TEXTS),
    "question": ("answers a question (the text) out of the second text", TEXTS),
    embedded_llm.NAME: ("a small chat model", (*TEXTS, "trace")),
    embedded.SENTENCES: ("a sentence encoder", ("similarity", "map")),
    embedded_pictures.NAME: ("reads a digit, 8 x 8 pixels and more", PICTURES),
    embedded_sounds.NAME: ("hears sentences of tones", SOUNDS),
}
ALONE = (embedded_pictures.NAME, embedded_sounds.NAME)  # whose weights come with the library itself


def installed() -> list[str]:
    """The embedded models whose weights are there."""
    tuned = find_spec(embedded.PACKAGE.replace("-", "_")) is not None
    chat = all(find_spec(name) for name in (embedded_llm.PACKAGE.replace("-", "_"), *embedded_llm.READERS))
    return [name for name in EMBEDDED if name in ALONE or (chat if name == embedded_llm.NAME else tuned)]


def reads(lens: Lens) -> str:
    """What a model reads: "texts", "pictures", "sounds", "texts and pictures"."""
    if isinstance(lens.subject, TwoTowers):
        return "texts and pictures"
    return "texts" if lens.head.fed == TEXT else "pictures" if lens.head.fed == PIXELS else "sounds"


class Models:
    """The lenses by name, of which the last few that were asked for stay in memory. For one thread."""

    def __init__(self, named: Sequence[str] = (), kept: int = KEPT) -> None:
        self.named, self.kept = tuple(dict.fromkeys(named)), kept
        self.names = {name: "named at the start" for name in self.named}
        self.names |= {f"mixlens:{name}": EMBEDDED[name][0] for name in installed() if f"mixlens:{name}" not in named}
        self.reads: dict[str, str] = {}  # of those that were loaded once
        self._loaded: OrderedDict[str, Lens] = OrderedDict()

    def of(self, verb: Verb) -> dict[str, str]:
        """What a verb's form offers: name -> what it is."""
        return {name: words for name, words in self.names.items() if self._suits(name, verb)}

    def require(self, verb: Verb, name: str) -> None:
        """Raises InputError for a model that is here and answers other pages, with who answers this one."""
        if name not in self.names or self._suits(name, verb):
            return
        if name in self.named:
            raise self._reads_else(verb, name)
        answered = ", ".join(f"/{other}" for other in EMBEDDED[name.removeprefix("mixlens:")][1])
        others = " or ".join(self.of(verb)) or "none that is here"
        raise InputError(f"{name!r} ({self.names[name]}) answers {answered}; /{verb.name} is answered by {others}")

    def _reads_else(self, verb: Verb, name: str) -> InputError:
        expected, kind = " or ".join(verb.reads), self.reads[name]
        return InputError(f"expected a model that reads {expected}, {name!r} reads {kind}; choose another")

    def _suits(self, name: str, verb: Verb) -> bool:
        if name in self.named:
            return self.reads.get(name, verb.reads[0]) in verb.reads
        return verb.name in EMBEDDED[name.removeprefix("mixlens:")][1]

    def asked_by(self, verb: Verb, name: str) -> Lens:
        """The lens of a model for a verb. Raises InputError for one that reads something else.

        A text that a model of pictures or sounds is asked of would be the name of a file of this machine.
        """
        lens = self.lens(name)
        if self.reads.get(name, verb.reads[0]) not in verb.reads:
            raise self._reads_else(verb, name)
        return lens

    def lens(self, name: str) -> Lens:
        """The lens of a model that is offered, loaded if it is not in memory. Raises as `mixlens.load` does."""
        import mixlens

        if name not in self._loaded:
            while len(self._loaded) >= self.kept:
                self._loaded.popitem(last=False)
                gc.collect()  # its modules hold each other; before the next one needs the room
            self._loaded[name] = mixlens.load(name)
            self.reads[name] = reads(self._loaded[name])
        self._loaded.move_to_end(name)
        return self._loaded[name]

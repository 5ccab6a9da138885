"""The models that a page offers: embedded ones and those that were named when the server was started."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mixlens import embedded, embedded_llm

if TYPE_CHECKING:
    from mixlens.lens import Lens

KEPT = 2  # models in memory
TEXTS = ("explain", "compare", "map")
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
}


def installed() -> list[str]:
    """The embedded models whose weights are there."""
    tuned = find_spec(embedded.PACKAGE.replace("-", "_")) is not None
    chat = all(find_spec(name) for name in (embedded_llm.PACKAGE.replace("-", "_"), *embedded_llm.READERS))
    return [name for name in EMBEDDED if (chat if name == embedded_llm.NAME else tuned)]


class Models:
    """The lenses by name, of which the last few that were asked for stay in memory. For one thread."""

    def __init__(self, named: Sequence[str] = (), kept: int = KEPT) -> None:
        self.named, self.kept = tuple(dict.fromkeys(named)), kept
        self.names = {name: "named at the start" for name in self.named}
        self.names |= {f"mixlens:{name}": EMBEDDED[name][0] for name in installed() if f"mixlens:{name}" not in named}
        self._loaded: OrderedDict[str, Lens] = OrderedDict()

    def of(self, verb: str) -> dict[str, str]:
        """What a verb's form offers: name -> what it is."""
        return {
            name: words
            for name, words in self.names.items()
            if name in self.named or verb in EMBEDDED[name.removeprefix("mixlens:")][1]
        }

    def lens(self, name: str) -> Lens:
        """The lens of a model that is offered, loaded if it is not in memory. Raises as `mixlens.load` does."""
        import mixlens

        if name not in self._loaded:
            while len(self._loaded) >= self.kept:
                self._loaded.popitem(last=False)
                gc.collect()  # its modules hold each other; before the next one needs the room
            self._loaded[name] = mixlens.load(name)
        self._loaded.move_to_end(name)
        return self._loaded[name]

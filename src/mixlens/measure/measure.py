"""The kinds of measures: what a line of the table says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mixlens.errors import InputError, UnknownOption, did_you_mean
from mixlens.measure.case import Case
from mixlens.measure.perturb import ATTCAT, Levels, removed, shares
from mixlens.options import options_of, shallow

Needs = Literal["reference", "second", "classes", "curve", "cue", "rationale", "answer", "special", "corpus", "gold"]
Replacement = Literal["delete", "pad", "mask", "unk", "zero", "soft"]
EMBEDDED: tuple[Replacement, ...] = ("zero", "soft")  # what is done to embeddings, of answers' prompts alone

OF = ("outputs", "transformed")
_FIELD = {"classes": "others"}  # where a need has another name than its field; "special" is always there


@dataclass(frozen=True)
class Measure:
    """The facts about a measure, and the pure function (Case, **options) -> float behind it.

    `higher_is_better`: None where neither is. `range`: the values that it can take. `per_layer`: it makes sense for
    the map of a single layer too. A text on which the measure means nothing gives NaN, to be counted, never an error.
    """

    name: str
    summary: str
    cite: str
    function: Callable[..., float]
    needs: Needs
    higher_is_better: bool | None
    range: tuple[float, float]
    per_layer: bool = True

    def options(self) -> dict[str, Any]:
        """The measure's own options and their defaults."""
        return options_of(self.function)

    def checked(self, options: dict[str, Any]) -> dict[str, Any]:
        """All options with their values. Raises UnknownOption for one that the measure would ignore or misread."""
        known = self.options()
        for name, value in options.items():
            if name not in known:
                raise UnknownOption(f"{self.name} has no option {name!r}{did_you_mean(name, known)}")
            if not shallow(value):
                raise UnknownOption(f"{self.name}: expected {name}= a value of a few lists in lists, got one too deep")
            wanted = type(known[name])
            if wanted in (bool, int) and (type(value) is not wanted or (wanted is int and value < 0)):
                expected = "True or False" if wanted is bool else "a whole number of 0 or more"
                raise UnknownOption(f"{self.name}: expected {name}= {expected}, got {value!r}")
        return {**known, **options}

    def __call__(self, case: Case, **options: Any) -> float:
        """The measure of one text; NaN where it is undefined. Raises InputError, UnknownOption."""
        values = self.checked(options)
        if not self.given(case):
            raise InputError(f"{self.name} needs {self.needs}, and the case has none")
        known = options_of(self.function)
        return float(self.function(case, **{k: v for k, v in values.items() if k in known}))

    def given(self, case: Case) -> bool:
        """Whether the case holds what the measure needs."""
        value = getattr(case, _FIELD.get(self.needs, self.needs), None)
        return value is not None and (self.needs != "classes" or len(value) > 0)


@dataclass(frozen=True)
class Curve(Measure):
    """A measure of how the answer changes as tokens are taken out in the order of their scores.

    Its function reads `Case.curve`: the log-probabilities of the untouched text and of the text without each of
    `removed(case)`, in that order. `replacement`: what is put in a token's place by default. `kept`: the highest tokens
    are kept instead, and all others taken out. `levels`: shares of the removable tokens.
    """

    replacement: Replacement = "delete"
    kept: bool = False
    levels: Levels = "tenths"

    def checked(self, options: dict[str, Any]) -> dict[str, Any]:
        """All options with their values. Raises UnknownOption."""
        values = super().checked(options)
        if (values["replace"] == "soft") != (self.replacement == "soft"):
            raise UnknownOption(
                f"{self.name}: expected replace='{self.replacement}'"
                f"{'' if self.replacement == 'soft' else ' or another word'}, got {values['replace']!r}"
            )
        if values["replace"] in EMBEDDED and values["mask_pad"]:
            raise UnknownOption(f"{self.name}: mask_pad=True needs replace='pad', got {values['replace']!r}")
        return values

    def options(self) -> dict[str, Any]:
        """The function's options, and how tokens are taken out.

        `mask_pad`: attention passes over the [PAD]s put in. `shortest`: a text of fewer tokens is undefined (AttCAT's
        authors leave out those of fewer than 10).
        """
        removal_options = {"replace": self.replacement, "levels": self.levels, "mask_pad": False, "shortest": 0}
        return {**options_of(self.function), **removal_options}

    def removed(self, case: Case, **options: Any) -> list[tuple[int, ...]]:
        """Per level the tokens that are taken out, ascending; [] where no token is removable or the text is too short.

        Raises UnknownOption.
        """
        values = self.checked(options)
        sets = removed(case.scores, case.removable, values["levels"], kept=self.kept)
        return sets if len(case.scores) >= values["shortest"] else []

    def points(self, options: Mapping[str, Any]) -> int:
        """The points of its curve, the untouched text first; 0: texts have different ones. Raises UnknownOption."""
        return 0 if options["levels"] == ATTCAT else 1 + len(shares(options["levels"]))


@dataclass(frozen=True)
class Ablation(Curve):
    """A measure of what is left of the answer without certain sets of tokens, which it names itself.

    `sets`: (Case, **its options) -> the sets; the function, with the same options, reads what is left without each.
    """

    sets: Callable[..., list[tuple[Any, ...]]] = lambda case: []

    def options(self) -> dict[str, Any]:
        """The function's options, and what takes a token's place."""
        return {**options_of(self.function), "replace": self.replacement, "mask_pad": False}

    def removed(self, case: Case, **options: Any) -> list[tuple[Any, ...]]:
        """The sets that are taken out, each ascending; of a softened text a seed and what stays of each token.

        Raises UnknownOption.
        """
        values, settings = self.checked(options), options_of(self.sets)
        return self.sets(case, **{k: v for k, v in values.items() if k in settings})

    def points(self, options: Mapping[str, Any]) -> int:
        """0: the sets stand in no order."""
        return 0


@dataclass(frozen=True)
class Spread:
    """What is said of one layer of a corpus: the measure's `value` over n texts, its interval over draws of texts, what
    chance gives (`null`), and the two-sided bootstrap p against it. All NaN where the measure is undefined, n being 0.
    """

    n: int
    value: float
    low: float
    high: float
    null: float
    p_null: float


@dataclass(frozen=True)
class Corpus(Measure):
    """A measure of many texts together, layer by layer: its function takes arrays of one layer instead of a Case.

    `collects`: what the arrays are. "sums": for each text the sum of its vectors, each scaled to length 1, (text, dim),
    and how many vectors these were, (text,). "labelled": one vector a text, (text, dim), and its class, (text,).
    `spread`: the function with interval and null, (arrays, level, resamples, draw_seed, options) -> Spread.
    """

    collects: Literal["sums", "labelled"] = "labelled"
    spread: Callable[..., Spread] | None = None

    def options(self) -> dict[str, Any]:
        """The function's options; `of`: whose vectors are summed, the attention sub-block's "outputs" or the
        "transformed" vectors that add up to them.
        """
        return {**options_of(self.function), **({"of": OF[0]} if self.collects == "sums" else {})}

    def checked(self, options: dict[str, Any]) -> dict[str, Any]:
        """All options with their values. Raises UnknownOption."""
        values = super().checked(options)
        if values.get("of", OF[0]) not in OF:
            raise UnknownOption(f"{self.name}: expected of='{OF[0]}' or '{OF[1]}', got {values['of']!r}")
        return values

    def __call__(self, *arrays: Any, **options: Any) -> float:
        """The measure of one layer; NaN where it is undefined. Raises UnknownOption."""
        return float(self.function(*arrays, **self._formula_options(options)))

    def spread_of(self, *arrays: Any, level: float, resamples: int, draw_seed: int, **options: Any) -> Spread:
        """The measure of one layer with its interval and its null. Raises UnknownOption."""
        assert self.spread is not None
        return self.spread(
            *arrays, level=level, resamples=resamples, draw_seed=draw_seed, **self._formula_options(options)
        )

    def _formula_options(self, options: dict[str, Any]) -> dict[str, Any]:
        known = options_of(self.function)
        return {k: v for k, v in self.checked(options).items() if k in known}

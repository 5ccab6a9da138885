"""Models of two towers (CLIP, SigLIP) as one subject: that of texts and that of pictures, compared by cosines."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from mixlens.architectures import TEXT, position_limit
from mixlens.capture.fed import kind
from mixlens.errors import Undefined, UnknownArchitecture
from mixlens.infer import known
from mixlens.subject.check import Check, of_towers
from mixlens.subject.head import Head
from mixlens.subject.read import Texts
from mixlens.subject.subject import Subject, examination, form
from mixlens.subject.towers import NAME_ONE, Tower, require_cosines


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoTowers(Subject):
    """`towers`: that of texts and that of pictures, subjects of their own; all else is the tower's of texts, but
    `check`, which is both's.
    """

    towers: tuple[Subject, Subject]

    def current(self) -> TwoTowers:
        """As every subject's, of both towers. Raises SelfCheckFailed, NotFinite."""
        text, picture = (tower.current() for tower in self.towers)
        if all(new.checked_as == old.checked_as for new, old in zip((text, picture), self.towers, strict=True)):
            return replace(self, towers=(text, picture))
        return of_both(self.whole, (text, picture), self.name)

    def checked_again(self) -> Check:
        """The self-checks of both towers as one. Raises NotFinite."""
        text, picture = (tower.checked_again() for tower in self.towers)
        return of_towers(text, picture, self.whole)

    @property
    def whole(self) -> Any:
        """The user's model, which holds both."""
        return self.model.whole

    def read(self, data: Any, truncate: bool = False, windows: bool | None = None) -> Texts:
        """Raises Undefined: it is not fed one text."""
        raise self._not_one()

    def require_one_tower(self) -> None:
        """Raises Undefined."""
        raise self._not_one()

    def require_one_read(self) -> None:
        """Raises Undefined."""
        raise self._not_one()

    def _not_one(self) -> Undefined:
        return Undefined(
            f"expected a model that reads one text or one picture, got two towers "
            f"({type(self.whole).__name__}): which words and which patches make them alike is "
            f"lens.similarity(text, picture); for all else name one: {NAME_ONE}"
        )


def of_both(model: Any, towers: tuple[Subject, Subject], name: str) -> TwoTowers:
    """The model of two checked towers. Raises SelfCheckFailed where it does not compare them by cosines."""
    text, picture = towers
    require_cosines(model, (text.model, picture.model), name)
    facts = {field.name: getattr(text, field.name) for field in fields(text)}
    return TwoTowers(**facts | {"check": of_towers(text.check, picture.check, model)}, towers=towers)


def tower_of(tower: Tower, reader: Any, name: str) -> Subject:
    """One of two towers, checked; `reader`: its tokenizer or image processor. Raises UnknownArchitecture."""
    try:
        spec, origin = known(tower)
    except UnknownArchitecture as error:
        raise UnknownArchitecture(f"of two towers that of {kind(tower.food)}s: {error}") from error
    check = examination(tower, spec, name)
    return Subject(
        model=tower,
        tokenizer=reader,
        spec=spec,
        head=Head(
            "none",
            {},
            causal=check.causal,
            pad=getattr(tower.config, "pad_token_id", None),
            mask=getattr(reader, "mask_token_id", None),
            tokenizer=reader if tower.food == TEXT else None,
            fed=tower.food,
        ),
        name=name,
        limit=position_limit(tower, spec) if tower.food == TEXT else None,
        check=check,
        checked_as=form(tower),
        origin=origin,
    )

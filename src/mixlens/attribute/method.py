"""The facts about an attribution method, and what every family of methods can be asked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from mixlens.architectures.spec import Spec
from mixlens.cost import Cost
from mixlens.errors import Undefined
from mixlens.subject.head import Head, HeadTask

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced
    from mixlens.capture.text import Tokens
    from mixlens.results import Attribution
    from mixlens.subject import Subject

Scores = tuple[Float[Tensor, " token"], Float[Tensor, "layer token"] | None]  # of a text; of each layer, or none
Tracing = Literal["together", "backward", "alone"]
Deep = Literal["upto", "each"]  # scores of each layer: of the model up to it, or of it alone


@dataclass(frozen=True)
class Method:
    """The facts about an attribution method. `class_specific`: the scores depend on the target, not only on its row.

    `heads`: whose answers it explains; None: any head's.
    A family is a subclass: what its lines of the table say, what they cost, and how they are run.
    """

    name: str
    summary: str
    cite: str
    signed: bool = False
    class_specific: bool = False
    heads: tuple[HeadTask, ...] | None = None
    baseline: ClassVar[bool] = False  # it explains nothing, so no refusal names it instead of another
    no_post_ln: ClassVar[str] = ""  # why it is not defined behind norms, and what to use: what a refusal says of it

    @property
    def two_streams(self) -> bool:
        """Whether it explains the answers of encoder-decoders: `rows` over a source and the answer's own tokens."""
        return False

    def reads_row(self, options: Mapping[str, Any]) -> bool:
        """Whether the scores are of a row, which `readout=` may say; of others it is refused."""
        return False

    def run(self, subject: Subject, asks: Sequence[Request[Self]]) -> list[list[Attribution]]:
        """The Attributions of each of several requests for the same texts, whose methods share a pass (`shares`)."""
        return [self.attributions(subject, ask) for ask in asks]

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """The Attributions of one request's texts, for families that share nothing."""
        raise NotImplementedError(f"{type(self).__name__} runs no single request")

    def rows(self, subject: Subject, ask: Traced) -> Float[Tensor, "answer source"] | None:
        """Raw scores of every answer token over prompt and answer, 0 behind the row that predicts it, all from one
        pass; None: each answer token is asked for alone.
        """
        return None

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        """How the rows of a trace are had: "together", at the cost of one text; "backward", a backward pass an answer
        token over one pass's graph; "alone", each answer token asked for alone (`rows` gives None).
        """
        return "alone"

    def ready(
        self, subject: Subject, prompt: Tokens, documents: Mapping[str, tuple[int, int]], options: Mapping[str, Any]
    ) -> None:
        """Raises what would be refused whatever the answer to a prompt is, before one is generated."""

    def cost(self, options: Mapping[str, Any]) -> Cost:
        """What the method takes, asked for with these options."""
        raise NotImplementedError(f"{type(self).__name__} says no cost")

    @property
    def work(self) -> str:
        """What is done in a layer, in a word."""
        return self.cost({}).work

    def options(self) -> dict[str, Any]:
        """The method's own options and their defaults."""
        return {}

    def shares(self, options: Mapping[str, Any]) -> Hashable | None:
        """What must be equal for one pass to serve several methods, asked for with these options; None: it never does.

        A method that is computed beside others has the numbers that it has alone: to the last bit in equal batches, and
        maps of several methods may make batches smaller.
        """
        return None

    def layers(self, deep: Deep) -> Literal["own", "again"] | None:
        """Where scores of each layer come from: "own", the pass has them; "again", a run at each layer's input."""
        return None

    def for_spec(self, spec: Spec) -> Method:
        """The method as it stands for an architecture. Raises Undefined."""
        if spec.memory is not None and not self.two_streams:
            raise Undefined(
                f"{self.name} is not defined for two streams of tokens, an encoder's and a decoder's; use alti, "
                "value_zeroing or saliency"
            )
        if spec.order == "post" and self.no_post_ln:
            raise Undefined(f"{self.name} {self.no_post_ln}")
        return self

    def for_head(self, head: Head) -> Method:
        """The method for a head. Raises Undefined."""
        if self.heads is not None and head.task not in self.heads:
            raise Undefined(
                f"{self.name} explains the answers of {' and '.join(self.heads)} heads, got {head.in_words}; use "
                "saliency, attcat or alti"
            )
        return self

    def defined(self, spec: Spec) -> bool:
        """Whether there is such a method for an architecture."""
        try:
            self.for_spec(spec)
        except Undefined:
            return False
        return True

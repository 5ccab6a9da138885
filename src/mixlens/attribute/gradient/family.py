"""Gradient methods: those that read the same pass have it made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from mixlens.answer import Answer, answer
from mixlens.attribute.gradient.across import rows_across
from mixlens.attribute.gradient.backward import differentiate
from mixlens.attribute.gradient.functions import TextGraph, saliency
from mixlens.attribute.gradient.rows import traced_rows
from mixlens.attribute.method import Deep, Method, Scores, Tracing
from mixlens.budget import sizes_of
from mixlens.cost import Cost, Sizes
from mixlens.errors import Undefined, UnknownOption
from mixlens.options import options_of
from mixlens.results import Attribution
from mixlens.subject import EncoderDecoder, Subject
from mixlens.subject.provenance import provenance
from mixlens.target import Quantity

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.architectures.spec import Spec
    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced


GRAPH_BYTES = 1 << 30  # of a text's graph that autograd keeps; for more, each layer is run again for its gradient


def _layer_graph_bytes(sizes: Sizes, n: int, weights: bool) -> float:
    """What autograd keeps of one layer; `weights`: of its attention too, where no fused kernel takes their gradient."""
    squares = 5 * sizes.heads * sizes.square_bytes(n) if weights or not sizes.fused else 0
    return n * sizes.item * (24 * sizes.dim + 4 * sizes.hidden) + squares


def runs_again(sizes: Sizes, n: int) -> bool:
    """Whether a text is so long that its layers are run again for their gradients."""
    return states_bytes(sizes, n) > GRAPH_BYTES


def graph_bytes(sizes: Sizes, n: int) -> float:
    """What autograd keeps of a pass, the attention's weights among it."""
    return sizes.layers * _layer_graph_bytes(sizes, n, weights=True)


def light_graph_bytes(sizes: Sizes, n: int) -> float:
    """What autograd keeps where nobody reads attention weights: of a long text one layer's, and each layer's input."""
    if not runs_again(sizes, n):
        return states_bytes(sizes, n)
    return _layer_graph_bytes(sizes, n, weights=False) + 3 * sizes.layers * n * sizes.dim * sizes.item


def states_bytes(sizes: Sizes, n: int) -> float:
    """What autograd keeps of all layers where nobody reads attention weights."""
    return sizes.layers * _layer_graph_bytes(sizes, n, weights=False)


def _passes(sizes: Sizes, n: int) -> float:
    return 3.5 if runs_again(sizes, n) else 2.5


WITH_WEIGHTS = Cost("backward", "one pass forward and one backward", lambda sizes, n: 2.5, graph_bytes)
BACKWARD = Cost("backward", "one pass forward and one backward", _passes, light_graph_bytes)


Reads = Literal["input", "hidden", "received", "weights"]


@dataclass(frozen=True)
class Gradient(Method):
    """A pure function of one text's graph (`TextGraph`).

    `reads`: "input" (the gradient at one layer's input), "hidden" (at all of them), "received" (and the attention that
    tokens receive) or "weights" (and attention with its gradients), of which `row`: the read-out row alone.
    `per_layer`: every layer has scores of its own. `sums`: it is the gradient's sum over dimensions, which is 0 where
    nothing but LayerNorms reads the input.
    """

    function: Callable[..., Scores] = saliency
    reads: Reads = "input"
    of: Quantity = "logit"
    class_specific: bool = True
    row: bool = False
    per_layer: bool = True
    sums: bool = False

    @property
    def two_streams(self) -> bool:
        return self.reads == "input"

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return WITH_WEIGHTS if self.reading(options) == "weights" else BACKWARD

    def reading(self, options: Mapping[str, Any]) -> Reads:
        """What is read of the pass with these options."""
        return "weights" if self.reads == "received" and options.get("weights") == "readout" else self.reads

    def reads_row(self, options: Mapping[str, Any]) -> bool:
        return self.row or self.reading(options) != self.reads

    def shares(self, options: Mapping[str, Any]) -> Hashable:
        same = [repr(options.get(option)) for option in ("layer", "mask_special", "readout")]
        return ("backward", self.of, self.reading(options) == "weights", *same)

    def layers(self, deep: Deep) -> Literal["own", "again"] | None:
        if deep != "each" or not self.per_layer:
            return None
        return "again" if self.reads == "input" else "own"

    def for_spec(self, spec: Spec) -> Method:
        super().for_spec(spec)
        if self.sums and spec.order != "post" and spec.norm == "layer" and not spec.bare:
            raise Undefined(
                f"{self.name} is 0 whatever the text is: the gradients of this {spec.order}-LN model sum to 0 over "
                "dimensions, since its LayerNorms take the mean out of what they read; use grad_l2 or grad_x_input"
            )
        return self

    def options(self) -> dict[str, Any]:
        defaults = options_of(self.function)
        return {**defaults, "layer": 0} if self.reads == "input" else {**defaults, "mask_special": False}

    def run(self, subject: Subject, asks: Sequence[Request[Self]]) -> list[list[Attribution]]:
        """One forward and one backward pass a batch for all of the methods. Raises TargetError."""
        first, of, reads = asks[0], asks[0].method.of, [ask.method.reading(ask.options) for ask in asks]
        first.need_answer(subject)
        layer = checked_layer(subject, first.options.get("layer", 0))
        hide = _special(first) if first.options.get("mask_special") else None
        # Hiding tokens makes another pass than the one that predicts: the prediction comes from the real one.
        fixed = None if hide is None else _predictions(subject, first)

        def resolve(i: int, logits: tuple[Tensor, ...]) -> Answer:
            return answer(subject.head, first.reads[i], logits) if fixed is None else fixed[i]

        def use(i: int, graph: TextGraph, resolved: Answer, value: Tensor) -> list[Attribution]:
            results = []
            for ask in asks:
                options = {k: v for k, v in ask.options.items() if k not in ("layer", "mask_special")}
                scores, layers = ask.method.function(graph, **options)
                meta = {**provenance(subject, ask.texts[i]), "of": resolved.chosen(of), "value": float(value)}
                results.append(ask.result(ask.texts[i], scores, layers, resolved, meta))
            return results

        texts = differentiate(
            subject,
            first.texts,
            first.answers,
            resolve,
            use,
            of=of,
            layer=layer,
            all_hidden=any(read != "input" for read in reads),
            weights=reads[0] == "weights",
            received="received" in reads,
            recompute=runs_again(sizes_of(subject), max(map(len, first.texts))),
            hide=hide,
            batch_size=min(ask.batch_size for ask in asks),
            progress=first.progress,
        )
        return [[results[k] for results in texts] for k in range(len(asks))]

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        attention = self.reading(options) in ("received", "weights")
        alone = options.get("mask_special") or (attention and isinstance(subject, EncoderDecoder))
        return "alone" if alone else "backward"

    def rows(self, subject: Subject, ask: Traced) -> Tensor | None:
        """Over one graph; where special tokens are hidden, which makes another pass, a text of its own a token."""
        reads, options = self.reading(ask.options), dict(ask.options)
        if self.traced(subject, options) == "alone":
            return None
        options.pop("mask_special", None)
        layer = checked_layer(subject, options.pop("layer", 0))
        again = runs_again(sizes_of(subject), len(ask.tokens))
        use = lambda graph: self.function(graph, **options)[0]  # noqa: E731
        if ask.source:
            if layer:
                raise Undefined(f"{self.name} of an encoder-decoder is taken at both stacks' first layers; use layer=0")
            return rows_across(ask, use, of=self.of, recompute=again)
        kept: Any = {"all_hidden": reads != "input", "weights": reads == "weights", "received": reads == "received"}
        return traced_rows(ask, use, of=self.of, layer=layer, recompute=again, **kept)


def _predictions(subject: Subject, ask: Request[Method]) -> list[Answer]:
    """The answers of the plain passes."""
    passes = subject.through(ask.texts, batch_size=ask.batch_size, answers=ask.answers)
    return [answer(subject.head, read, text_pass.logits) for read, text_pass in zip(ask.reads, passes, strict=True)]


def _special(ask: Request[Method]) -> list[tuple[bool, ...]]:
    """Which tokens of each text are special. Raises Undefined where none is known to be, or nothing else is."""
    for tokens in ask.texts:
        if len(set(tokens.special)) < 2:
            raise Undefined(
                f"mask_special=True needs texts with special tokens and others, got {list(tokens.names)!r:.60}; leave "
                "it out, or load the model with its tokenizer"
            )
    return [tokens.special for tokens in ask.texts]


def checked_layer(subject: Subject, layer: Any) -> int:
    """The layer whose input is the variable, negatives counted from the end. Raises UnknownOption."""
    count = subject.layers
    if isinstance(layer, bool) or not isinstance(layer, int) or not -count <= layer < count:
        raise UnknownOption(f"expected layer=-{count} to {count - 1}, got {layer!r}")
    return layer % count

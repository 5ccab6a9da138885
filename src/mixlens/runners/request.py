"""One call of `Lens.attribute`, checked, and the way from raw scores to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

from torch import Tensor

from mixlens.aggregate.rows import normalize_rows
from mixlens.architectures.spec import Order
from mixlens.arguments import KINDS
from mixlens.attribute import Method, method
from mixlens.attribute.readout import Answer, Reading, reading
from mixlens.attribute.target import Target
from mixlens.capture.batch import BatchSize
from mixlens.capture.text import Tokens
from mixlens.errors import Undefined, UnknownMethod, UnknownOption, did_you_mean
from mixlens.mixing import MIXING, Mixing
from mixlens.options import shallow
from mixlens.results import Attribution
from mixlens.runners import budget
from mixlens.runners.passes import Progress

COMMON = {"readout": None, "normalize": True}  # what every attribution may be asked
_OF_TARGETS = ("foil", "of", "position")
_WANTED: Mapping[type, tuple[str, tuple[type, ...]]] = {  # by the type of an option's default
    bool: ("True or False", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
}


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of which texts. `options`: the method's own; the rest are those that every method has."""

    name: str
    method: Method
    options: Mapping[str, Any]
    texts: Sequence[Tokens]
    reads: Sequence[Reading]
    normalize: bool = True
    batch_size: int = 32  # of the longest texts
    sizes: BatchSize | None = None  # where shorter texts may be more; None: `batch_size` always
    progress: Progress | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)  # as the caller wrote them, for the record
    layered: Literal["upto", "each"] | None = None  # a preset's `layers`: those up to each, or each alone; None: free

    def size_of(self, n: int) -> int:
        """How many texts of n tokens go through at a time."""
        return self.sizes(n) if callable(self.sizes) else self.batch_size

    @property
    def answers(self) -> list[int]:
        """Where each text's answer is read."""
        return [read.at for read in self.reads]


def request(
    lens: Any,
    name: str,
    asked: Mapping[str, Any],
    targets: Sequence[Target],
    texts: Sequence[Tokens],
    batch_size: int,
    progress: Progress | None,
    memory: Any = None,
    together: int = 1,
) -> Request:
    """A checked Request; `together`: how many share its pass.

    Raises UnknownMethod, UnknownOption, Undefined, TargetError, OverBudget.
    """
    chosen = checked(lens, name, asked)
    own = chosen.options()
    lengths = [len(tokens) for tokens in texts]
    cost = budget.of_attribution(lens, chosen, asked, together)
    size, sizes = budget.within(name, cost, lengths, memory, batch_size)
    return Request(
        name=name,
        method=chosen,
        options={k: v for k, v in asked.items() if k in own},
        texts=texts,
        reads=[
            reading(lens.head, tokens, target, asked.get("readout"))
            for tokens, target in zip(texts, targets, strict=True)
        ],
        normalize=bool(asked.get("normalize", True)),
        batch_size=size,
        sizes=sizes,
        progress=progress,
        asked=dict(asked),
    )


def checked(lens: Any, name: str, asked: Mapping[str, Any]) -> Method:
    """The table's line of an attribution method. Raises UnknownMethod, UnknownOption, Undefined."""
    chosen = method(name).for_spec(lens.spec)
    refuse_unknown(name, asked, {**chosen.options(), **COMMON})
    return chosen


def mixing_facts(name: str, options: Mapping[str, Any], order: Order) -> Mixing:
    """The table's line of a mixing method. Raises UnknownMethod, UnknownOption, Undefined."""
    if not isinstance(name, str) or name not in MIXING:
        raise UnknownMethod(f"no mixing method {name!r}{did_you_mean(name, MIXING)}")
    facts = MIXING[name]
    refuse_unknown(name, options, facts.options())
    if order not in facts.orders:
        raise Undefined(
            f"{name} is defined for {', '.join(facts.orders)}-LN layers, this model's are {order}-LN: no norm "
            "follows their residual sum; use norm_res or globenc"
        )
    return facts


def refuse_unknown(name: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raises UnknownOption for an option that the method would ignore, flags and numbers that are none."""
    for option, value in options.items():
        if option not in known:
            has = f"its options are {', '.join(sorted(known))}" if known else "it has none"
            hint = f"; a target says it: mixlens.Target(..., {option}=...)" if option in _OF_TARGETS else ""
            raise UnknownOption(f"{name} would ignore the option {option!r}{hint}; {has}")
        if not shallow(value):
            raise UnknownOption(f"expected {option}= a value of a few lists in lists for {name}, got one too deep")
        wanted = _WANTED.get(type(known[option]))
        if wanted is not None and type(value) not in wanted[1]:
            raise UnknownOption(f"expected {option}= {wanted[0]} for {name}, got {value!r}")
        if option in KINDS:
            KINDS[option].check(option, value, f" for {name}")


@cache
def _version(package: str) -> str:
    """Read from a file of hundreds of lines: once, not for every text."""
    return version(package)


def provenance(lens: Any, tokens: Tokens) -> dict[str, Any]:
    """Where a result comes from: model, versions, how far the self-check was off, what was cut."""
    import mixlens

    return {
        "model": lens.name,
        "architecture": lens.model.config.model_type,
        "dtype": str(lens.model.dtype).removeprefix("torch."),
        "mixlens": mixlens.__version__,
        "transformers": _version("transformers"),
        "torch": _version("torch"),
        "self_check": lens.self_check_residual,
        **({"dropped": tokens.dropped} if tokens.dropped else {}),
        **({"warnings": warned} if (warned := warnings(lens, tokens)) else {}),
    }


def warnings(lens: Any, tokens: Tokens) -> tuple[str, ...]:
    """What a reader of a result should know about the model and the text before believing it."""
    out = []
    if lens.head.unread is not None:
        out.append(f"the model's answer is not explained: it has {lens.head.in_words}")
    if tokens.padded:
        out.append(
            f"{tokens.padded} padding tokens at an end are explained as text, since the ids came without a mask: pass "
            "{'input_ids': ..., 'attention_mask': ...}"
        )
    return tuple(out)


def result(
    ask: Request,
    tokens: Tokens,
    scores: Tensor,
    layers: Tensor | None,
    answer: Answer,
    meta: Mapping[str, Any],
) -> Attribution:
    """The Attribution of raw scores: divided by their sum, unless signed or unasked."""
    share = ask.normalize and not ask.method.signed
    row = answer.rows[0] if len(answer.rows) == 1 else answer.rows
    said = (*meta.get("warnings", ()), *answer.warnings)
    warned = {"warnings": said} if said else {}
    return Attribution(
        source=tokens,
        scores=normalize_rows(scores) if share else scores,
        method=ask.name,
        options=dict(ask.asked),
        meta={**meta, "class_specific": ask.method.class_specific, "readout": row, **answer.said, **warned},
        target=answer.target,
        layers=normalize_rows(layers) if share and layers is not None else layers,
    )

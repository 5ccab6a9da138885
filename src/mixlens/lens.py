"""`load` and `Lens`: the face of the library. A verb is a function of a Subject and stands in the room that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from mixlens.architectures import Spec
from mixlens.attribute import verbs as attribute_verbs
from mixlens.compare import compare as side_by_side
from mixlens.errors import UnknownOption
from mixlens.inventory import supports
from mixlens.mixing import calls as mixing_calls
from mixlens.overloads import of_classes, of_pairs, of_prompts, of_tensors, of_texts
from mixlens.process import settled
from mixlens.similarity import similarity as alike
from mixlens.subject import Subject, TwoTowers, examined
from mixlens.subject.check import Check
from mixlens.trace import plan_trace as trace_plan
from mixlens.trace import trace as whole_answer
from mixlens.wrappers import taken_apart

P = ParamSpec("P")
R = TypeVar("R")


@settled
def load(model: Any = None, tokenizer: Any = None, *, spec: Spec | None = None, **options: Any) -> Lens:
    """A lens on a model: a folder, a hub id, or a loaded Hugging Face model with its tokenizer (or its name).

    The model in a pipeline, Trainer, SentenceTransformer, CrossEncoder, PEFT or DataParallel wrapper is taken out.
    Without a model: the embedded sentiment classifier, offline; "mixlens:NAME" names another of `mixlens.embedded`.
    `spec`: how its layers are built, for a model whose type has no spec and none is found (docs/architectures.md), or
    to be sure of one. `options` go to `from_pretrained` (dtype, device_map, revision, gguf_file ...). No code of a
    folder runs unless `trust_remote_code=True`. The model is checked (see `Lens.check`) and never changed. Raises
    ModelError and its kin.

    Examples:
        >>> mixlens.load()
        Lens(mixlens default (MiniLM, SST-2): BertForSequenceClassification, 6 layers)
    """
    if model is None or isinstance(model, str) or hasattr(model, "__fspath__"):
        from mixlens.loading import load_named

        model, packaged, name = load_named(None if model is None else str(model), spec, **options)
        return Lens(model, tokenizer if tokenizer is not None else packaged, name=name, spec=spec)
    if options:
        raise UnknownOption(f"expected no options beside a loaded model, got {sorted(options)}; set them when loading")
    return Lens(model, tokenizer, spec=spec)


def verb(function: Callable[Concatenate[Subject, P], R]) -> Callable[Concatenate[Lens, P], R]:
    """A room's function of a Subject as a method of `Lens`: its arguments and its page of help are the function's."""

    @wraps(function)
    def call(self: Lens, /, *args: P.args, **kwargs: P.kwargs) -> R:
        subject = self.subject
        if function is not alike:
            subject.require_one_tower()
        return function(subject, *args, **kwargs)

    expected = signature(function)
    lens = Parameter("self", Parameter.POSITIONAL_ONLY)
    call.__signature__ = expected.replace(parameters=[lens, *list(expected.parameters.values())[1:]])  # type: ignore[attr-defined]
    call.__qualname__ = f"Lens.{function.__name__}"
    return call


class Lens:
    """A model under the lens. Each call runs on a shadow that shares the model's tensors; the model stays as it is.

    `subject`: the model with what is known of it, for who writes methods; `spec`, `head`, `name`, `limit` are its.
    """

    @settled
    def __init__(self, model: Any, tokenizer: Any = None, name: str | None = None, spec: Spec | None = None) -> None:
        given = taken_apart(model, tokenizer)
        self._subject = examined(given.model, given.tokenizer, name, given.pooled, spec, given.behind)
        self.model, self.tokenizer = given.model, self._subject.tokenizer
        self.spec, self.head = self._subject.spec, self._subject.head
        self.name, self.limit = self._subject.name, self._subject.limit

    @property
    def subject(self) -> Subject:
        """The model as it is now: checked again where it was brought to another dtype or device since."""
        self._subject = self._subject.current()
        return self._subject

    @settled
    def check(self) -> Check:
        """Run the self-check again: per layer the three residuals, and which methods are defined for this model.

        Examples:
            >>> check = lens.check()
            >>> check.passed, check.supports["alti"] is None
            (True, True)
        """
        subject = self._subject
        able = {} if isinstance(subject, TwoTowers) else supports(self.spec, self.head)
        return replace(subject.checked_again(), supports=able, origin=subject.origin)

    @property
    def self_check_residual(self) -> float:
        """The largest residual found at load, or since the model was brought to another dtype or device."""
        return self.subject.residual

    mixing = of_texts(verb(mixing_calls.mixing))  # how much of each token goes into each, layer by layer
    attribute = of_classes(verb(attribute_verbs.attribute))  # one score a token
    trace = of_prompts(verb(whole_answer))  # where each token of a whole answer comes from
    plan = verb(attribute_verbs.plan)  # what a call would take
    plan_trace = verb(trace_plan)  # what a trace would
    compare = verb(side_by_side)  # several methods on one text
    similarity = of_pairs(verb(alike))  # which words of two texts made their vectors alike
    mixing_ratio = of_tensors(verb(mixing_calls.mixing_ratio))  # the share of each token that comes from others
    output_statistics = verb(mixing_calls.output_statistics)  # of each layer's output over texts

    def __repr__(self) -> str:
        return f"Lens({self.name}: {type(self.model).__name__}, {self._subject.layers} layers)"

"""Other packages' scores of an answer's prompt, each as its own users get them: by its documented call and defaults.

A package runs on a copy of the model that shares the weights and has no gradients to fill, with a tokenizer of its own,
since some change both. The prompt goes in as the text that it is, without a chat template; where a package's tokens are
not the very tokens that are measured, the example fails and says so.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mixlens.capture.shadow import shadow
from mixlens.errors import InputError, missing
from mixlens.lens import Lens

if TYPE_CHECKING:
    from mixlens.evaluation.given import Question

Call = Callable[["Question"], Any]


@dataclass(frozen=True, eq=False)
class Peer:
    """Another package's method. `make`: (model, tokenizer) -> a function of a `Question`.

    `attention`: the implementation that it runs on. `costly`: a pass a token, or tens of them. `versus`: whether it
    holds the answer against the foil, where there is one.
    """

    package: str
    variant: str
    make: Callable[[Any, Any], Call]
    attention: str = "sdpa"
    costly: bool = False
    versus: bool = False
    _made: dict[Lens, Call] = field(default_factory=dict, repr=False)

    @property
    def version(self) -> str:
        """The package and its version, as they are installed. Raises MissingExtra."""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            raise missing(f"the scores of {self.package}", self.package, "peers") from None

    @property
    def label(self) -> str:
        """What the row is called."""
        return f"{self.version} (package{f', {self.variant}' if self.variant else ''})"

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        try:
            version(self.package)
        except PackageNotFoundError:
            return False
        return True

    def __call__(self, question: Question) -> Any:
        """(token,) scores of the prompt, its scores of the answer's tokens summed. Raises InputError, MissingExtra."""
        if question.answer is None or not isinstance(question.text, str):
            raise InputError(
                f"{self.package} explains answers to prompts that are text, got example {question.example.id!r}"
            )
        lens = question.lens
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # inseq and captum advise on how they are called
            if lens not in self._made:
                self._made.clear()
                self._made[lens] = self.make(twin_of(lens, self.attention), copy.deepcopy(lens.tokenizer))
            return self._made[lens](question)


def twin_of(lens: Lens, attention: str) -> Any:
    """A copy of the model on the same weights, whose parameters take no gradient."""
    twin = shadow(lens.model, attention)
    for module in twin.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                module._parameters[name] = nn.Parameter(weight.detach(), requires_grad=False)
    return twin


def written(question: Question, tokenizer: Any, part: str) -> str:
    """The text of its "answer" or "foil" which, alone and behind the prompt, is those tokens. Raises InputError."""
    given, ids = getattr(question.example, part), getattr(question, part)
    text = given if isinstance(given, str) else str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))
    same_tokens(question, tokenizer(text, add_special_tokens=False)["input_ids"], ids)
    same_tokens(question, tokenizer(f"{question.text}{text}")["input_ids"], [*question.ids, *ids])
    return text


def same_tokens(question: Question, theirs: Sequence[int], measured: Sequence[int]) -> None:
    """Raises InputError where a package reads other tokens than those that are measured."""
    if list(theirs) != list(measured):
        raise InputError(
            f"expected the tokens of example {question.example.id!r} from its text too, got {len(theirs)} others for "
            f"{len(measured)}; give the prompt and the answer as texts that the tokenizer cuts at their border"
        )


def flashtrace(model: Any, tokenizer: Any) -> Call:
    """`FlashTrace(...).trace(...)`: its `flashtrace` of one hop, the answer's tokens as one span."""
    tracer = import_module("flashtrace").FlashTrace(model, tokenizer)

    def scores(question: Question) -> Any:
        result = tracer.trace(prompt=question.text, target=written(question, tokenizer, "answer"))
        return result.scores

    return scores


def gim_explain(model: Any, tokenizer: Any) -> Call:
    """`gim.explain(...)` of each answer token's logit behind what stands before it, summed."""
    package = import_module("gim")

    def scores(question: Question) -> Any:
        total = torch.zeros(len(question), dtype=torch.float64, device="cpu")
        answer = question.answer or ()
        for t, token in enumerate(answer):
            ids = torch.tensor([[*question.ids, *answer[:t]]], dtype=torch.int64, device=model.device)
            explained = package.explain(model, ids, target_token_id=token, tokenizer=tokenizer)
            total += explained[: len(total)].double().cpu()
        return total

    return scores


def inseq(method: str) -> Callable[[Any, Any], Call]:
    """`model.attribute(prompt, prompt + answer)`, of the probability; its own sum over an embedding, the L2 norm.

    With a foil its `contrast_prob_diff`.
    """

    def make(model: Any, tokenizer: Any) -> Call:
        wrapped = import_module("inseq").load_model(model, method, tokenizer=tokenizer)

        def scores(question: Question) -> Any:
            against: dict[str, Any] = {}
            whole = question.text + written(question, tokenizer, "answer")
            if question.foil is not None:
                foil = question.text + written(question, tokenizer, "foil")
                against = {"attributed_fn": "contrast_prob_diff", "contrast_targets": foil}
            out = wrapped.attribute(question.text, whole, show_progress=False, **against)
            shares = out.sequence_attributions[0].aggregate().target_attributions  # (source, answer token), NaN behind
            return shares[: len(question)].double().nan_to_num().sum(-1)

        return scores

    return make


def captum(method: str) -> Callable[[Any, Any], Call]:
    """`LLMGradientAttribution` or `LLMAttribution` of one of captum's methods, of the log-probability.

    Tokens by `TextTokenInput`; the baseline is the vocabulary's token 0.
    """

    def make(model: Any, tokenizer: Any) -> Call:
        package = import_module("captum.attr")
        if method == "FeatureAblation":
            attribution = package.LLMAttribution(package.FeatureAblation(model), tokenizer)
        else:
            inner = getattr(package, method)(model, model.get_input_embeddings())
            attribution = package.LLMGradientAttribution(inner, tokenizer)

        def scores(question: Question) -> Any:
            given = package.TextTokenInput(question.text, tokenizer)
            same_tokens(question, given.to_model_input()[0].tolist(), question.ids)
            answer = torch.tensor(question.answer, dtype=torch.int64, device="cpu")
            return attribution.attribute(given, target=answer).seq_attr

        return scores

    return make


# inseq's input_x_gradient and captum's LayerGradientXActivation are `saliency` and `grad_x_input` (tests/golden).
PEERS: tuple[Peer, ...] = (
    Peer("flashtrace", "", flashtrace, attention="eager"),
    Peer("gim-explain", "", gim_explain),
    Peer("inseq", "saliency", inseq("saliency"), attention="eager", versus=True),
    Peer("captum", "LayerIntegratedGradients", captum("LayerIntegratedGradients"), costly=True),
    Peer("captum", "FeatureAblation", captum("FeatureAblation"), costly=True),
)

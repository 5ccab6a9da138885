"""What a model's head is: seen from what comes out of a pass, whatever its class is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from mixlens.architectures import TEXT, Spec, accepts, base_model, decoder_of, fed, layer_count
from mixlens.capture.fed import SOUNDS
from mixlens.capture.offload import device_of
from mixlens.capture.run import LayerPass, Reading, run
from mixlens.capture.shadow import shadow
from mixlens.errors import MixlensError, ModelError
from mixlens.subject.outputs import Key, answer_keys, tensors
from mixlens.subject.probe import probe_inputs

HeadTask = Literal["sequence", "token", "masked", "causal", "question", "ctc", "none"]
Pooled = Literal["first", "last", "mean"]


@dataclass(frozen=True)
class Head:
    """What is known of a model's head.

    `keys`: where its logits stand in the model's output. `pooled`: the rows that a sequence classifier was seen to
    read. `unread`: what came out where no logits are known among it.
    `behind`: what a sentence encoder has between its pooled rows and its vectors, where that changes their direction.
    """

    task: HeadTask
    labels: Mapping[int, str]
    pooled: Pooled | None = None
    causal: bool = False
    pad: int | None = None
    mask: int | None = None
    tokenizer: Any = None
    regression: bool = False
    multilabel: bool = False
    keys: tuple[Key, ...] = ()
    unread: str | None = None
    behind: tuple[str, ...] = ()
    fed: str = TEXT  # the name of what the model reads

    @property
    def in_words(self) -> str:
        """What it is, for messages."""
        if self.regression:
            return "a regression head"
        if self.unread is not None:
            return f"a head whose output is not understood ({self.unread})"
        if self.task == "ctc":
            return "a CTC head"
        return "a model without a head" if self.task == "none" else f"a {self.task} head"


def head_of(
    model: Any, spec: Spec, tokenizer: Any, causal: bool, pooled: Pooled | None = None, behind: tuple[str, ...] = ()
) -> Head:
    """The head of a model whose rows see no later tokens (`causal`) or do. Raises ModelError.

    `pooled`: the rows that whoever uses a model without a head makes its vector of; `behind`: see `Head`.
    """
    config = model.config
    known: dict[str, Any] = {
        "behind": behind,
        "causal": causal,
        "pad": getattr(config, "pad_token_id", None),
        "mask": getattr(tokenizer, "mask_token_id", None),
        "tokenizer": getattr(tokenizer, "tokenizer", None) if fed(model) in SOUNDS else tokenizer,
        "fed": fed(model),
    }
    inputs = probe_inputs(model, spec)
    if spec.memory is not None:
        return _translating(model, spec, inputs, known)
    if model is base_model(model):
        return Head("none", {}, pooled=pooled, **known)
    output, leaf = _pass(model, spec, inputs)
    keys = answer_keys(output, leaf.shape[1], leaf.shape[-1])
    outputs = tensors(output)
    parts = [outputs[key] for key in keys]
    task = _task(model, spec, inputs, keys, parts, causal, leaf.shape[1])
    if task == "none":
        return Head("none", {}, unread=_seen(output), **known)
    if task in ("question", "masked", "causal", "ctc"):
        return Head(task, {}, keys=keys, **known)
    (logits,) = parts
    count = 1 if logits.ndim == 1 else logits.shape[-1]
    problem = getattr(config, "problem_type", None)
    return Head(
        task,
        _labels(config, count),
        keys=keys,
        pooled=pooled_rows(logits, leaf) if task == "sequence" else None,
        regression=task == "sequence" and (count == 1 or problem == "regression"),
        multilabel=problem == "multi_label_classification",
        **known,
    )


@torch.no_grad()
def _translating(model: Any, spec: Spec, inputs: Mapping[str, Tensor], known: Mapping[str, Any]) -> Head:
    """The head of an encoder-decoder: a language model's, of the decoder's tokens, a classifier's of the text that both
    read, or none. Raises ModelError.
    """
    classes = _classes(model)
    if classes is not None:
        problem = getattr(model.config, "problem_type", None)
        return Head(
            "sequence",
            _labels(model.config, classes),
            keys=("logits",),
            pooled="last",
            regression=classes == 1 or problem == "regression",
            multilabel=problem == "multi_label_classification",
            **known,
        )
    try:
        output = run(model, spec, inputs, lambda seen: None, Reading(heads=True))
    except (MixlensError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise ModelError(
            f"expected an encoder-decoder that answers what its decoder reads, the head of {type(model).__name__} "
            f"fails on that: {type(error).__name__}: {str(error).partition(chr(10))[0]}; its head is "
            "not explained: load its language model (...ForConditionalGeneration), a classifier of texts "
            "(...ForSequenceClassification), or its encoder, model.get_encoder()"
        ) from error
    logits, size = getattr(output, "logits", None), decoder_of(model).get_input_embeddings().num_embeddings
    if logits is None:
        return Head("none", {}, **known)
    if logits.shape == (*inputs["decoder_input_ids"].shape, size):
        return Head("causal", {}, keys=("logits",), **known)
    return Head("none", {}, unread=_seen(output), **known)


@torch.no_grad()
def _classes(model: Any) -> int | None:
    """How many classes an encoder-decoder gives of a text that ends with its end token; None: it is no classifier."""
    end = getattr(model.config, "eos_token_id", None)
    if not isinstance(end, int) or fed(model) != TEXT or model is base_model(model):
        return None
    size = base_model(model).get_input_embeddings().num_embeddings
    ids = torch.tensor(
        [[i for i in range(3, 9) if i != end and i < size] + [end]], dtype=torch.int64, device=device_of(model)
    )
    plain: Any = shadow(model, "eager")
    try:
        logits = getattr(plain(input_ids=ids, attention_mask=torch.ones_like(ids)), "logits", None)
    except (MixlensError, torch.OutOfMemoryError):
        raise
    except Exception:  # a language model is to be told what its decoder reads
        return None
    return int(logits.shape[1]) if isinstance(logits, Tensor) and logits.ndim == 2 else None


def _pass(model: Any, spec: Spec, inputs: Mapping[str, Tensor]) -> tuple[Any, Tensor]:
    """The whole model's output for the probe, and the last layer's vectors, which it can be differentiated by."""
    last = layer_count(model, spec) - 1
    leaves: list[Tensor] = []

    def cut(seen: LayerPass) -> Tensor | None:
        if seen.index != last or seen.y is None:
            return None
        leaves.append(seen.y.detach().requires_grad_())
        return leaves[0]

    kind, names, fed_with = type(model).__name__, accepts(model), " and ".join(inputs)
    if not names >= set(inputs):
        raise ModelError(
            f"expected {kind}.forward to take {fed_with}, it takes {', '.join(sorted(names))}; "
            "name its arguments so, or load the encoder in it alone"
        )
    try:
        with torch.enable_grad():
            output = run(model, spec, inputs, cut, Reading(heads=True))
    except MixlensError:
        raise
    except Exception as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        several = (
            "; a multiple-choice head takes all choices of a question at once: load the weights as "
            f"{kind.replace('ForMultipleChoice', 'ForSequenceClassification')} with num_labels=1, whose one output is "
            "a choice's score"
        )
        hint = several if kind.endswith("ForMultipleChoice") else "; load the encoder in it alone to see its maps"
        raise ModelError(
            f"expected {kind} to take {fed_with}, its head fails on them: "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}{hint}"
        ) from error
    return output, leaves[0]


def _task(
    model: Any,
    spec: Spec,
    inputs: Mapping[str, Tensor],
    keys: Sequence[Key],
    parts: Sequence[Tensor],
    causal: bool,
    n: int,
) -> HeadTask:
    """The task that logits of these shapes belong to, for an input of `n` positions."""
    if len(parts) != 1:
        return "question" if len(parts) == 2 else "none"
    (logits,) = parts
    if logits.ndim < 3:
        return "none" if logits.shape[-1] == n and _one_a_token(model, spec, inputs, keys) else "sequence"
    if logits.shape[1] != n:
        return "none"
    if fed(model) == TEXT and logits.shape[-1] in _vocabulary(model):
        return "causal" if causal else "masked"
    return "ctc" if fed(model) in SOUNDS and _says_letters(model, logits.shape[-1]) else "token"


def _says_letters(model: Any, count: int) -> bool:
    """Whether a head that gives `count` classes in every frame gives letters, and not a speaker or an event."""
    return hasattr(model, "lm_head") and getattr(model.config, "vocab_size", None) == count


def _one_a_token(model: Any, spec: Spec, inputs: Mapping[str, Tensor], keys: Sequence[Key]) -> bool:
    """Whether there are as many numbers as tokens because each token has one: then a shorter text has fewer."""
    if fed(model) != TEXT:
        return False
    shorter = {k: v[:, :-1] for k, v in inputs.items()}
    return tensors(_pass(model, spec, shorter)[0])[keys[0]].shape[-1] < inputs["input_ids"].shape[1]


def _vocabulary(model: Any) -> set[int | None]:
    """The numbers of words that it may have."""
    return {base_model(model).get_input_embeddings().num_embeddings, getattr(model.config, "vocab_size", None)}


def pooled_rows(logits: Tensor, leaf: Tensor) -> Pooled | None:
    """Which rows of the last layer a classifier's head reads, seen from the gradient of its output; None: others."""
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(logits.float().pow(2).sum(), leaf, allow_unused=True, materialize_grads=True)
    read = gradient[0].abs().sum(-1).gt(0).nonzero().flatten().tolist()
    n = leaf.shape[1]
    return "first" if read == [0] else "last" if read == [n - 1] else "mean" if len(read) == n else None


def _labels(config: Any, count: int) -> dict[int, str]:
    """The names of `count` classes; those of a configuration that names another number of classes mean others."""
    named = {int(i): str(label) for i, label in (getattr(config, "id2label", None) or {}).items()}
    return named if sorted(named) == list(range(count)) else {i: f"LABEL_{i}" for i in range(count)}


def _seen(output: Any) -> str:
    """What came out, for messages."""
    shapes = {"output" if k is None else str(k): tuple(t.shape) for k, t in tensors(output).items()}
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or type(output).__name__

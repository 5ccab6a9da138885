"""Capture: the user's model stays as it is, and what is captured is what it computes."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

import mixlens
from mixlens.architectures import spec_for
from mixlens.capture import attention
from mixlens.capture import run as capture_run
from mixlens.capture.batch import buckets
from mixlens.capture.run import run
from mixlens.decompose import Block
from mixlens.errors import ModelError, SelfCheckFailed, UnsupportedConfig
from mixlens.mixing import MIXING
from models import families

TEXTS = families.texts((9, 5))


def state(model: nn.Module) -> dict[str, Any]:
    """Everything that a call could have changed, and copies of all numbers."""
    hooks = [name for name in vars(nn.Module()) if name.endswith("_hooks")]
    return {
        "numbers": {k: t.clone() for k, t in model.state_dict().items()},
        "places": {k: (t.data_ptr(), t.dtype, t.device) for k, t in model.state_dict().items()},
        "trainable": {k: p.requires_grad for k, p in model.named_parameters()},
        "gradients": {k: None if p.grad is None else p.grad.clone() for k, p in model.named_parameters()},
        "modes": {k: m.training for k, m in model.named_modules()},
        "hooks": {(k, h): len(getattr(m, h)) for k, m in model.named_modules() for h in hooks},
        "attributes": {k: sorted(vars(m)) for k, m in model.named_modules()},
        "attention": model.config._attn_implementation,
        "config": model.config.to_dict(),
    }


def same(before: Any, after: Any) -> bool:
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(same(v, after[k]) for k, v in before.items())
    return torch.equal(before, after) if isinstance(before, torch.Tensor) else before == after


def lived_in(name: str, head: str = "base", **how: Any) -> Any:
    """A model as users have them: partly frozen, one gradient left from training, in train mode below, a hook."""
    model = families.make(name, head, **how)
    parameters = list(model.parameters())
    parameters[0].requires_grad_(False)
    parameters[1].grad = torch.ones_like(parameters[1])
    list(model.modules())[-1].train()
    return model


# --- the user's model ---


@pytest.mark.parametrize(("name", "head"), [("bert", "sequence"), ("gpt2", "causal"), ("gemma2", "base")])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_model_is_as_before(name, head, attention):
    model = lived_in(name, head, attention=attention if name != "gemma2" else "eager")
    before = state(model)
    lens = mixlens.load(model)
    lens.mixing(TEXTS, method="value_zeroing")
    lens.mixing_ratio(TEXTS[0])
    lens.attribute(TEXTS, method="alti", **({"readout": 0} if head == "base" else {}))
    lens.check()
    assert same(before, state(model))


def test_the_model_is_as_before_after_an_error_in_the_middle():
    model = lived_in("bert")
    before = state(model)

    def boom(seen: object) -> None:
        if seen.index == 1:
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        run(model, spec_for(model.config), {"input_ids": torch.tensor(TEXTS[:1])}, boom)
    assert same(before, state(model))


def test_the_state_would_show_a_change():
    model = lived_in("bert")
    before = state(model)
    assert same(before, state(model))
    for change in (
        lambda m: m.train(),
        lambda m: m.register_forward_hook(print),
        lambda m: m.encoder.layer[0].output.dense.bias.data.add_(1),
        lambda m: m.config.update({"use_cache": True, "hidden_act": "relu"}),
        lambda m: m.encoder.layer[1].attention.self.__dict__.update(extra=1),
        lambda m: next(m.parameters()).requires_grad_(True),
        lambda m: m.set_attn_implementation("eager"),
    ):
        model = lived_in("bert")
        change(model)
        assert not same(before, {**state(model), "places": before["places"]})


@pytest.mark.parametrize("name", ["bert", "gpt2", "modernbert", "llama"])
def test_a_model_in_train_mode_is_explained_without_dropout(name):
    model = families.make(name).train()
    expected = families.lens(name).mixing(TEXTS[0], method="globenc").scores
    assert torch.equal(mixlens.load(model).mixing(TEXTS[0], method="globenc").scores, expected)
    assert all(m.training for m in model.modules())


def test_the_user_s_hooks_watch_the_user_s_model_only():
    model, ran = families.make("bert"), []
    model.register_forward_hook(lambda *_: ran.append("model"))
    model.encoder.layer[0].register_forward_pre_hook(lambda *_: ran.append("layer"))
    model.encoder.layer[1].output.dense.register_forward_hook(lambda m, args, out: ran.append("linear") or 2 * out)
    got = mixlens.load(model).mixing(TEXTS[0], method="alti").scores
    assert ran == []
    assert torch.equal(got, families.lens("bert").mixing(TEXTS[0], method="alti").scores)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_maps_do_not_depend_on_the_attention_that_was_loaded(name):
    first, second = (mixlens.load(families.make(name, attention=a)) for a in ("sdpa", "eager"))
    for method in ("attention", "value_zeroing"):
        a, b = (lens.mixing(TEXTS[0], method=method).scores for lens in (first, second))
        assert torch.equal(a, b)
        assert len({tuple(m.flatten().tolist()) for m in a}) == len(a)  # and no layer's map is another's


def test_the_user_may_run_its_model_meanwhile():
    model = families.make("bert", "sequence")
    ids = torch.tensor(TEXTS[:1])
    with torch.no_grad():
        expected = model(ids).logits
    lens, wrong, done = mixlens.load(model), [], threading.Event()
    maps = lens.mixing(TEXTS[0], method="alti").scores

    def user() -> None:
        while not done.is_set():
            with torch.no_grad():
                out = model(ids, output_attentions=False).logits
            if not torch.equal(out, expected):
                wrong.append(out)

    threads = [threading.Thread(target=user) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert torch.equal(lens.mixing(TEXTS[0], method="alti").scores, maps)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_two_captures_at_once():
    lens = families.lens("bert")
    expected = [lens.mixing(text, method="globenc").scores for text in TEXTS]
    got: dict[int, list[torch.Tensor]] = {0: [], 1: []}

    def ask(k: int) -> None:
        for _ in range(4):
            got[k].append(lens.mixing(TEXTS[k], method="globenc").scores)

    threads = [threading.Thread(target=ask, args=(k,)) for k in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(g) == 4 and all(torch.equal(t, expected[k]) for t in g) for k, g in got.items())


# --- what is captured ---


@pytest.mark.parametrize("name", ["bert", "llama", "albert-inner"])
def test_one_layer_is_alive_at_a_time(name):
    model = families.model(name)
    spec = spec_for(model.config)
    seen_before: list[weakref.ref] = []

    def look(seen: object) -> None:
        gc.collect()
        assert [ref() for ref in seen_before if ref() is not None] == []
        block = Block(spec, seen)
        block.terms("residual").norms()
        (call,) = seen.attends[0].calls
        seen_before.extend(map(weakref.ref, (seen, block, call, call.v, seen.attends[0].out)))

    with torch.no_grad():
        run(model, spec, {"input_ids": torch.tensor(TEXTS[:1])}, look)
    assert len(seen_before) == 5 * len(families.lens(name).check().layers)


@pytest.mark.parametrize("name", families.each())
def test_the_captured_pass_gives_the_model_s_own_output(name):
    model = families.model(name)
    inputs = {"input_ids": torch.tensor(TEXTS[:1])}
    with torch.no_grad():
        got = run(model, spec_for(model.config), inputs, lambda seen: None).last_hidden_state
        real = model(**inputs).last_hidden_state
    tolerance = 1e-5 if model.config._attn_implementation == "eager" else 1e-12  # its softmax rounds to float32
    assert (got - real).abs().max() <= tolerance * real.abs().max()


class Bypass(nn.Module):
    """Attention of its own, that no interface sees."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.value = inner.value

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
        return self.value(hidden_states).mean(1, keepdim=True).expand_as(hidden_states), None


def test_a_layer_that_does_not_hand_its_attention_out_is_refused():
    model = families.make("bert")
    model.encoder.layer[1].attention.self = Bypass(model.encoder.layer[1].attention.self)
    with pytest.raises(SelfCheckFailed, match=r"expected one call of the attention interface in BertLayer 1 .*, got 0"):
        mixlens.load(model)


@pytest.mark.parametrize("thing", [nn.Linear(2, 2), object(), 3])
def test_what_is_no_model_is_refused(thing):
    with pytest.raises(ModelError, match="expected a Hugging Face transformers model, a folder or a model id, got"):
        mixlens.load(thing)


@pytest.mark.parametrize("name", families.each())
def test_a_text_of_one_token(name):
    lens = families.lens(name)
    for method in ("attention", "norm", "globenc", "alti"):
        scores = lens.mixing(TEXTS[0][:1], method=method).scores
        assert torch.isfinite(scores).all()
        assert scores.shape[1:] == (1, 1)
    assert (lens.mixing_ratio(TEXTS[0][:1]) == 0).all()


def test_a_changed_model_is_explained_as_it_is_now():
    """A shadow is made for each call: after `.to()` or training, a kept one would hold the old tensors."""
    model = families.make("bert")
    lens = mixlens.load(model)
    before = lens.mixing(TEXTS[0], method="norm").scores
    with torch.no_grad():
        model.encoder.layer[0].attention.output.dense.weight *= 2
    assert torch.allclose(lens.mixing(TEXTS[0], method="norm").scores[0], 2 * before[0])
    model.float()
    assert lens.mixing(TEXTS[0], method="norm").scores.dtype == torch.float32


# --- half precision ---


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize(
    "methods",
    [
        pytest.param([name for name, facts in MIXING.items() if facts.work != "jacobian"], id="terms"),
        pytest.param(["hta", "hta_x_input"], id="jacobian", marks=pytest.mark.slow),
    ],
)
def test_lower_precision_ranks_as_float64_does(methods, name, dtype):
    text = families.text(24)
    low = families.model(name, dtype=dtype)
    one, other = mixlens.load(low), mixlens.load(copy.deepcopy(low).double())
    for method in methods:
        if not MIXING[method].defined(one.spec):
            continue
        got, expected = (lens.mixing(text, method=method).scores for lens in (one, other))
        assert got.dtype == torch.float32
        assert torch.isfinite(got).all()
        rows = [(layer, i) for layer in range(3) for i in (12, 17, 20, 23)]
        rhos = [spearmanr(got[layer, i, : i + 1], expected[layer, i, : i + 1]).statistic for layer, i in rows]
        assert sum(rhos) / len(rhos) >= 0.98, method


def test_gradients_and_dtypes_of_half_precision_stay():
    model = families.make("bert", dtype=torch.bfloat16)
    before = state(model)
    mixlens.load(model).mixing(TEXTS, method="value_zeroing")
    assert same(before, state(model))


# --- language models ---


@pytest.mark.parametrize(
    ("name", "head"),
    [
        pytest.param(n, h, marks=() if n in families.FEATURES else pytest.mark.slow)
        for n, f in families.FAMILIES.items()
        for h in f.heads
        if h in ("masked", "causal")
    ],
)
def test_a_language_model_s_answer_is_its_own(name, head):
    """Logits at one position are computed, not all: they are those that the whole model gives there."""
    model, lens = families.model(name, head), families.lens(name, head)
    at = 3 if head == "masked" else -1
    target = mixlens.Target(position=at) if head == "masked" else None
    got = lens.attribute(TEXTS, method="random", target=target)
    for text, one in zip(TEXTS, got, strict=True):
        with torch.no_grad():
            p = model(torch.tensor([text])).logits[0, at].softmax(-1)
        assert one.target.index == int(p.argmax())
        assert one.meta["probability"] == pytest.approx(float(p.max()), rel=1e-5 if name == "gemma2" else 1e-10)
        assert one.meta["readout"] == (at if at >= 0 else len(text) - 1)


# --- adapters ---


def with_lora(name: str, seed: int = 0) -> tuple[Any, Any]:
    """A model with random low-rank changes on every linear map of its layers, and the same merged."""
    peft = pytest.importorskip("peft")
    model = families.make(name)
    layers = spec_for(model.config).layers
    names = [n for n, m in model.named_modules() if isinstance(m, nn.Linear) and n.startswith(layers)]
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=names, init_lora_weights=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wrapped = peft.get_peft_model(model, config).double().eval()
    return wrapped, copy.deepcopy(wrapped).merge_and_unload()


# peft asks a model for an attribute that transformers renames
peft_s_own = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")


@peft_s_own
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_an_adapted_model_has_the_maps_of_the_merged_one(name):
    wrapped, merged = with_lora(name)
    plain = families.lens(name)
    one, other = mixlens.load(wrapped), mixlens.load(merged)
    for method in ("attention", "effective_attention", "globenc", "alti", "value_zeroing"):
        got, expected = (lens.mixing(TEXTS[0], method=method).scores for lens in (one, other))
        assert (got - expected).abs().max() <= 1e-12 * expected.abs().max(), method
        assert (got - plain.mixing(TEXTS[0], method=method).scores).abs().max() > 1e-3, method


@peft_s_own
def test_prompt_learning_is_refused():
    peft = pytest.importorskip("peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    wrapped = peft.get_peft_model(families.make("gpt2", "causal"), config)
    with pytest.raises(UnsupportedConfig, match="got prompt learning, which adds positions that are no tokens"):
        mixlens.load(wrapped)


def lengths_of(groups: list[list[int]], texts: list[Any]) -> list[list[int]]:
    return [[len(texts[i]) for i in group] for group in groups]


def test_a_batch_on_a_cpu_ends_before_much_shorter_texts() -> None:
    """From eight texts on; elsewhere, and below, it is filled up."""
    texts = families.lens("bert").subject.read(families.texts([9] * 9 + [8] * 2 + [7] * 3 + [3] * 9)).require()
    assert lengths_of(list(buckets(texts, 16)), texts) == [[9] * 9 + [8] * 2 + [7] * 3 + [3] * 2, [3] * 7]
    tight = lengths_of(list(buckets(texts, 16, tight=True)), texts)
    assert tight == [[9] * 9 + [8] * 2, [7] * 3 + [3] * 5, [3] * 4]
    assert lengths_of(list(buckets(texts, 4, tight=True)), texts) == lengths_of(list(buckets(texts, 4)), texts)


def test_weights_that_are_kept_are_those_that_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for rounding, which shows that both were tried."""
    lens = families.lens("bert")
    kept = [maps.scores for maps in lens.mixing(TEXTS, method="alti")]
    monkeypatch.setattr(attention, "KEPT_BYTES", 0)
    for few, anew in zip(kept, (maps.scores for maps in lens.mixing(TEXTS, method="alti")), strict=True):
        assert not torch.equal(few, anew)
        torch.testing.assert_close(few, anew, rtol=1e-9, atol=1e-12)


def test_batches_of_a_call_share_a_shadow_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, made = families.lens("llama", "causal"), []
    alone = [lens.attribute(text, "globenc").scores for text in TEXTS]
    real = capture_run.shadow
    monkeypatch.setattr(capture_run, "shadow", lambda *given: made.append(given) or real(*given))
    together = [result.scores for result in lens.attribute(TEXTS, "globenc", batch_size=1)]
    assert len(made) == 1
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def storages() -> set[int]:
    held = [t for t in gc.get_objects() if isinstance(t, torch.Tensor)]
    return {t.untyped_storage().data_ptr() for t in held if t.layout is torch.strided and not t.is_meta}


@pytest.mark.parametrize("method", ["alti", "attcat", "path_logit", "map"])
def test_nothing_of_a_call_waits_for_the_collector(method: str) -> None:
    """A cycle of a shadow and its hooks would keep weights, and what was seen, after all is deleted."""
    made, texts = families.lens("llama", "causal"), families.texts((9, 4))

    def call() -> None:
        if method == "map":
            made.mixing(texts, method="attention")
        else:
            made.attribute(texts, method)
            made.trace(texts[0], [5, 6], method)

    call()
    gc.collect()
    gc.disable()
    try:
        before = storages()
        call()
        assert not storages() - before
    finally:
        gc.enable()


def test_a_model_that_is_deleted_is_gone() -> None:
    model = families.make("llama", "causal")
    weight = weakref.ref(model.model.layers[0].mlp.down_proj.weight)
    made = mixlens.load(model)
    gc.collect()
    gc.disable()
    try:
        made.mixing(families.text(), method="alti")
        made.attribute(families.text(), "attcat")
        del made, model
        gone = weight() is None
    finally:
        gc.enable()
    assert gone

"""Memory: what is planned is never under what is used, a budget changes no number, and an impossible one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

import mixlens
from mixlens import budget
from mixlens.attribute import ATTRIBUTIONS, Occlusion
from mixlens.attribute import Path as FromBaseline
from mixlens.attribute.request import Request
from mixlens.errors import OverBudget, UnknownOption
from mixlens.mixing import MIXING
from mixlens.subject import Subject
from models import families

PEAK = Path("/proc/self/clear_refs")
MEASURE = """
import ctypes, gc, sys
from pathlib import Path
import torch, transformers
import mixlens

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

def peak(call):
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS:")
    call()
    return resident("VmHWM:") - before

kind, *asked = sys.argv[1:]
torch.manual_seed(0)
if kind == "encoder":
    config = transformers.BertConfig(vocab_size=1000, num_hidden_layers=1)
    lens = mixlens.load(transformers.BertModel(config).eval())
elif kind == "classifier":
    config = transformers.BertConfig(vocab_size=1000, num_hidden_layers=2, hidden_size=128, num_attention_heads=4,
        intermediate_size=512, initializer_range=0.2)  # with less, what grad_sum adds up is too near 0
    lens = mixlens.load(transformers.BertForSequenceClassification(config).eval())
else:
    config = transformers.LlamaConfig(vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=4096)
    lens = mixlens.load(transformers.LlamaForCausalLM(config).eval())
OPTIONS = {"blank_out": {"replace": 4}, "integrated_gradients": {"steps": 8, "tolerance": 1e9}}
maps = kind == "encoder"
call = lens.mixing if maps else lens.attribute
for tokens, methods in (words.split(":") for words in asked):
    ids = torch.randint(10, 900, (int(tokens),)).tolist()
    for method in methods.split(","):
        options = OPTIONS.get(method, {})
        used = peak(lambda: call(ids, method, **options))
        print(method, tokens, used, lens.plan(ids, method, maps=maps, **options).peak_bytes)
"""


@pytest.fixture
def measured(tmp_path, script):
    """(method, tokens, bytes above what stood before, bytes planned) in a process of its own; `asked`: by tokens."""

    def measured(kind: str, asked: dict[int, list[str]]) -> list[tuple[str, int, int, int]]:
        words = [f"{tokens}:{','.join(methods)}" for tokens, methods in asked.items()]
        (file := tmp_path / "measure.py").write_text(MEASURE, "utf-8")
        printed = script(file, kind, *words).splitlines()
        return [(name, *map(int, numbers)) for name, *numbers in map(str.split, printed)]

    return measured


linux = pytest.mark.skipif(not PEAK.exists(), reason="peaks are read from Linux's /proc")
CLASSIFIERS = sorted(name for name, method in ATTRIBUTIONS.items() if method.heads is None)
LONG = ["globenc", "alti_logit", "ifr", "saliency", "attcat", "cp_lrp", "gim", "path_logit", "head_logit"]
DECOMPOSITIONS = [name for name, facts in MIXING.items() if facts.work in ("forward", "decompose")]


SLOW = ["blank_out", "hta", "hta_x_input"]  # a pass a token and more: their room shows at fewer tokens too

PEAKS = {
    "encoder": {32: ["hta"], 128: ["attention", "globenc", "alti", "value_zeroing"], 512: DECOMPOSITIONS},
    "classifier": {160: [*SLOW, "hta+rollout"], 512: [name for name in CLASSIFIERS if name not in SLOW]},
    "decoder": {4096: ["attention_rollout"], 3072: LONG},
}


@linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", PEAKS)
def test_peaks_stay_under_the_plan_and_under_4_gb(kind, measured):
    peaks = measured(kind, PEAKS[kind])
    assert len(peaks) == sum(map(len, PEAKS[kind].values()))
    for name, tokens, used, planned in peaks:
        assert used <= planned <= 4e9, (name, tokens, used, planned)


@pytest.mark.parametrize("method", ["attention", "alti", "value_zeroing"])
def test_a_budget_makes_small_batches_and_changes_no_number(method, monkeypatch):
    texts, lens, seen = families.texts(), families.lens("bert"), []
    monkeypatch.setattr(budget, "BASE_BYTES", 0)
    whole = lens.mixing(texts, method)
    tight = lens.plan(texts, method, batch_size=2, maps=True).peak_bytes
    through = Subject.through
    monkeypatch.setattr(
        Subject, "through", lambda self, *a, **k: (seen.append(k["batch_size"]), through(self, *a, **k))[1]
    )
    parts = lens.mixing(texts, method, memory=tight)
    assert seen[0](9) == 2 < seen[0](1)
    for one, other in zip(whole, parts, strict=True):
        assert (one.scores - other.scores).abs().max() <= 1e-12


PASSES = {"context_cite", "leave_one_out", "integrated_gradients", "hta", "hta_x_input"}  # of many passes or gradients
EVERY = [
    pytest.param(name, call, marks=pytest.mark.slow if name in PASSES else ())
    for call, names in (("mixing", MIXING), ("attribute", ATTRIBUTIONS))
    for name in names
]


@pytest.mark.parametrize(("method", "call"), EVERY)
def test_the_smallest_budget_changes_no_number(method, call, monkeypatch):
    chosen = {"blank_out": {"replace": 4}, "integrated_gradients": {"steps": 4, "tolerance": 1e9}}
    parts = {name: {"units": "token"} for name in ("context_cite", "leave_one_out")}  # token ids have no sentences
    options = {**chosen, **parts}.get(method, {})
    texts = [families.text(n) for n in (5, 3)]
    heads = None if call == "mixing" else ATTRIBUTIONS[method].heads
    lens = families.lens("bert", "sequence") if heads is None else families.lens("llama", heads[0])
    monkeypatch.setattr(budget, "BASE_BYTES", 0)
    whole = getattr(lens, call)(texts, method, **options)
    least = lens.plan(texts, method, batch_size=1, maps=call == "mixing", **options).peak_bytes
    tight = getattr(lens, call)(texts, method, memory=least, **options)
    small = 1e-6 if method == "integrated_gradients" else 1e-12  # captum's step sizes are float32
    for one, other in zip(whole, tight, strict=True):
        assert (one.scores - other.scores).abs().max() <= small


def test_a_plan_says_what_a_call_takes():
    lens = families.lens("bert", "sequence")
    plan = lens.plan([families.text()] * 3, "value_zeroing")
    assert (plan.texts, plan.tokens, plan.batch_size, plan.method) == (3, 9, 3, "value_zeroing")
    assert plan.time == "one pass and the rest of each layer for every pair of tokens"
    assert plan.fits
    assert plan.passes > lens.plan(families.text(), "alti").passes >= 1
    assert lens.plan(families.text(), "blank_out").passes == 9
    assert not lens.plan(families.text(), memory=1000).fits
    assert "at most" in str(plan)


@pytest.mark.parametrize(
    ("kind", "method", "options", "size"),
    [
        (Occlusion, "blank_out", {"replace": 4}, 7),
        (FromBaseline, "integrated_gradients", {"steps": 80, "tolerance": 1e9}, 7 * 32 // 9),
    ],
)
def test_one_text_that_takes_many_passes_still_has_them_in_batches(kind, method, options, size, monkeypatch):
    seen, real = [], kind.attributions

    def look(self, subject: Subject, ask: Request) -> list[mixlens.Attribution]:
        seen.append(ask.size_of(9))
        return real(self, subject, ask)

    monkeypatch.setattr(kind, "attributions", look)
    families.lens("bert", "sequence").attribute(families.text(), method, batch_size=7, **options)
    assert seen == [size]


@pytest.mark.parametrize(
    ("method", "sizes"),
    [("integrated_gradients", [32 // 9, 8 * 32 // 9, 100]), ("blank_out", [1, 8, 9]), ("attcat", [1, 1, 1])],
)
def test_a_plan_counts_the_passes_that_run_together(method, sizes):
    lens, text = families.lens("bert", "sequence"), families.text()
    plans = [lens.plan(text, method, batch_size=size) for size in (1, 8, 1000)]
    assert [plan.batch_size for plan in plans] == sizes
    assert plans[0].peak_bytes <= plans[1].peak_bytes <= plans[2].peak_bytes


def test_hta_of_512_tokens_is_planned_inside_4_gb():
    config = transformers.BertConfig(vocab_size=1000, num_hidden_layers=1)
    lens = mixlens.load(transformers.BertModel(config).eval())
    assert lens.plan([7] * 512, "hta", maps=True).peak_bytes <= 4e9


def test_an_impossible_budget_is_refused_before_any_work(monkeypatch):
    lens, text = families.lens("bert", "sequence"), families.text()
    monkeypatch.setattr(Subject, "passes", None)
    said = r"expected alti on 1 text\(s\) of up to 9 tokens to need at most 1\.00MB of memory, it needs about .*; pass"
    with pytest.raises(OverBudget, match=said):
        lens.mixing(text, "alti", memory="1MB")
    with pytest.raises(OverBudget):
        lens.attribute(text, "attcat", memory=1_000_000)


def test_a_refusal_names_what_fits():
    lens, text = families.lens("bert", "sequence"), families.text()
    most = lens.plan(text, "hta", maps=True).peak_bytes
    least = lens.plan(text, "attention", maps=True).peak_bytes
    assert least < most - 1
    with pytest.raises(OverBudget, match=r"or a method that fits: .*attention\b.*see Lens.plan") as caught:
        lens.mixing(text, "hta", memory=most - 1)
    named = str(caught.value).partition("fits: ")[2].partition(" (")[0].split(", ")
    assert "hta" not in named
    for name in named:
        assert lens.plan(text, name, maps=True, memory=most - 1).fits, name
    with pytest.raises(OverBudget, match=r"a row-wise map \(queries=\[\.\.\.\]\), or use a method that needs less"):
        lens.mixing(text, "alti", memory=1)


def test_a_baseline_is_not_named_in_a_method_s_stead():
    lens, text = families.lens("bert", "sequence"), families.text()
    most = lens.plan(text, "hta+rollout").peak_bytes
    assert lens.plan(text, "random", memory=most - 1).fits
    with pytest.raises(OverBudget, match=r"or a method that fits: .*saliency") as caught:
        lens.attribute(text, "hta+rollout", memory=most - 1)
    assert "random" not in str(caught.value)


@pytest.mark.parametrize("memory", ["much", "0GB", 0, -1, True])
def test_what_is_no_budget_is_refused(memory):
    with pytest.raises(UnknownOption, match="expected memory= bytes, '2GB', '512MiB' or None"):
        families.lens("bert").plan(families.text(), memory=memory)


def test_budgets_are_read():
    cpu = torch.device("cpu")
    assert [budget.bytes_of(m, cpu) for m in ("2GB", "1.5 gb", "512MiB", "7", 9)] == [
        2 * 10**9,
        15 * 10**8,
        2**29,
        7,
        9,
    ]
    assert budget.bytes_of(None, cpu) > 1 << 20


def test_a_budget_under_a_kilobyte_is_shown_in_bytes(tiny_bert_folder):
    with pytest.raises(OverBudget) as caught:
        mixlens.load(tiny_bert_folder).attribute("a deep film", memory=1)
    assert " 1B" in str(caught.value)
    assert "0.0KB" not in str(caught.value)

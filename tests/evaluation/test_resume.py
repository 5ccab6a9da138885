"""A run that is killed ends with the very table of an undisturbed one; a changed run is refused by name."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import budget
from mixlens.attribute import calls
from mixlens.errors import DataError, ResultFileError, RunChanged
from mixlens.evaluation import fingerprint, log, windows
from mixlens.evaluation.fingerprint import tokenizer_facts

TEXTS = ["a deep film .", "not bad", "a very slow and bad film .", "meaningful and deep ."]
HOW: dict[str, Any] = {"methods": ["alti", "saliency"], "measures": ["spearman", "aopc"], "resamples": 20}


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


def stop(done: int, total: int | None) -> None:
    """Ctrl-C after three texts: in the second chunk of two."""
    if done == 3:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["manifest.json", "table.csv"])
def test_a_file_of_no_run_is_not_written_over(name: str, lens: mixlens.Lens, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunChanged, match=f"holds {name}, and no run that wrote it"):
        mixlens.evaluate(lens, TEXTS, **HOW, out=tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_run_with_named_columns_says_how_to_name_them(lens: mixlens.Lens, tmp_path: Path) -> None:
    rows = [{"sentence": text} for text in TEXTS[:2]]
    task = mixlens.task("classification", text="sentence")
    how: dict[str, Any] = {"methods": ["alti"], "measures": ["spearman"], "resamples": 20, "out": tmp_path / "run"}
    mixlens.evaluate(lens, rows, task=task, **how)
    with pytest.raises(RunChanged, match=r"one, or name its columns as that run did: text is 'sentence'$"):
        mixlens.evaluate(lens, rows, **how)
    with pytest.raises(RunChanged, match=r"or delete this one$"):
        mixlens.evaluate(lens, rows, task=task, **{**how, "methods": ["saliency"]})


@pytest.mark.slow
def test_killed_at_several_points_and_flat_in_memory(
    tiny_bert_folder: Path, tmp_path: Path, script: Callable[..., str]
) -> None:
    printed = script(Path(__file__).with_name("driver.py"), str(tiny_bert_folder), str(tmp_path))
    *runs, (_, grown) = [line.split() for line in printed.splitlines()]
    assert [name for name, *_ in runs] == ["undisturbed", "once", "often", "torn", "from_outside"]
    assert len({tuple(digests) for _, *digests in runs}) == 1, printed
    assert int(grown) < 5000  # KiB
    table = (tmp_path / "undisturbed" / "table.csv").read_text("utf-8")
    assert len(table.splitlines()) == 1 + 2 + 2  # two measures of a method, one of the model's two layers
    assert ",2," in table  # the empty text and the one that is too long


@pytest.mark.slow
def test_memory_does_not_grow_with_the_texts_of_a_real_model(script: Callable[..., str]) -> None:
    """The embedded inference model, whole methods: no object and no memory is kept of a text, and a leak is seen."""
    lines = [json.loads(line) for line in script(Path(__file__).with_name("flat.py")).splitlines()]
    grown = {}
    for name, texts in (("flat", 128), ("leak", 64)):
        _, second, *_, last = [line for line in lines if line["run"] == name]
        assert last["texts"] - second["texts"] == texts
        grown[name] = (last["mib"] - second["mib"], last["objects"] - second["objects"])
    # Objects are counted exactly. What the system calls resident goes up and down by 12 MiB from chunk to chunk.
    assert grown["flat"][0] < 24 and grown["flat"][1] < 128, lines
    assert grown["leak"][1] > 4 * 64, lines


def test_a_finished_run_computes_nothing(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
    monkeypatch.setattr(windows, "records", None)
    again = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
    assert again.rows == first.rows


def test_in_memory_is_the_same_table(lens: mixlens.Lens, tmp_path: Path) -> None:
    kept = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
    held = mixlens.evaluate(lens, TEXTS, **HOW)
    assert held.to_csv() == kept.to_csv() == (tmp_path / "run" / "table.csv").read_text("utf-8")
    folder = held.folder
    assert folder.is_dir()
    del held
    assert not folder.exists()


def test_intervals_may_be_made_anew(lens: mixlens.Lens, tmp_path: Path) -> None:
    one = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", level=0.5, **HOW)
    two = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", level=0.99, **HOW)
    assert [r.mean for r in one] == [r.mean for r in two]
    assert one.rows[0].low > two.rows[0].low  # type: ignore[operator]


def test_a_finished_run_takes_another_seed(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the bootstrap, as the documentation says: the random scores are there and stay."""
    how = {**HOW, "measures": ["spearman:random", "aopc"], "methods": ["alti", "saliency", "random"]}
    one = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **how)
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.suffix != ".csv"}
    monkeypatch.setattr(windows, "records", None)
    two = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", seed=1, **how)
    assert [(r.mean, r.null) for r in one] == [(r.mean, r.null) for r in two]
    assert [(r.low, r.high) for r in one] != [(r.low, r.high) for r in two]
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.suffix != ".csv"} == before
    assert mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **how).rows == one.rows  # and back


def test_an_unfinished_run_goes_on_with_its_own_seed(
    lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "CHUNK", 2)

    with pytest.raises(KeyboardInterrupt):
        mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", progress=stop, **HOW)
    with pytest.raises(RunChanged, match=r"methods\.random\.options\.seed: was 0, now 1"):
        mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", seed=1, **HOW)
    assert len(mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW).values("aopc", "alti")) == len(TEXTS)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "methods": ({"methods": ["alti", "attcat"]}, 'now ["alti", "attcat", "random"]'),
    "measures": ({"measures": ["spearman"]}, "measures: was "),
    "reference": ({"reference": "grad_l2"}, '"spearman:grad_l2"'),
    "option": ({"options": {"alti": {"p": 2}}}, "methods.alti.options.p: was null, now 2"),
    "measure's option": ({"options": {"aopc": {"replace": "pad"}}}, 'replace: was "delete", now "pad"'),
    "target": ({"target": "positive"}, 'target: was null, now "positive"'),
    "random's seed": ({"options": {"random": {"seed": 1}}}, "methods.random.options.seed: was 0, now 1"),
    "batch_size": ({"batch_size": 3}, "batch_size: was 32, now 3"),
    "limit": ({"limit": 2}, "limit: was null, now 2"),
    "exclude": ({"exclude": "first"}, 'exclude: was null, now ["first"]'),
    "layers": ({"layers": "each"}, 'layers: was null, now "each"'),
    "task": ({"task": mixlens.task("classification", text="words")}, "task.fields.text"),
}


@pytest.fixture(scope="module")
def finished(lens: mixlens.Lens, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing below may change."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    mixlens.evaluate(lens, TEXTS, out=folder, **HOW)
    return folder


@pytest.mark.parametrize("name", CHANGES)
def test_changed_options_are_named(name: str, lens: mixlens.Lens, finished: Path) -> None:
    changed, says = CHANGES[name]
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    with pytest.raises(RunChanged) as error:
        mixlens.evaluate(lens, TEXTS, out=finished, **{**HOW, **changed})
    assert says in str(error.value)
    assert "another folder (out=)" in str(error.value)
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before


def test_changed_weights_are_named(tiny_bert_folder: Path, finished: Path) -> None:
    other = mixlens.load(str(tiny_bert_folder))
    with torch.no_grad():
        other.model.bert.encoder.layer[1].output.dense.bias[3] += 1e-6
    with pytest.raises(RunChanged, match=r"model\.weights: was"):
        mixlens.evaluate(other, TEXTS, out=finished, **HOW)
    swapped = mixlens.load(str(tiny_bert_folder))
    with torch.no_grad():  # the same numbers in another order
        bias = swapped.model.bert.encoder.layer[0].output.dense.bias
        bias.copy_(bias.flip(0).clone())
    with pytest.raises(RunChanged, match=r"model\.weights: was"):
        mixlens.evaluate(swapped, TEXTS, out=finished, **HOW)


def test_how_a_tokenizer_padded_last_is_no_part_of_it(tiny_bert_folder: Path) -> None:
    tokenizer = mixlens.load(str(tiny_bert_folder)).tokenizer
    before = tokenizer_facts(tokenizer)
    tokenizer(["a", "a a a"], padding=True, truncation=True, max_length=3)
    assert tokenizer.backend_tokenizer.padding and tokenizer.backend_tokenizer.truncation
    assert tokenizer_facts(tokenizer) == before
    assert tokenizer.backend_tokenizer.padding  # the user's is not touched


def test_the_same_file_by_another_name(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, other = tmp_path / "c.csv", tmp_path / "c2.csv", tmp_path / "c.tsv"
    for path in (one, two, other):
        path.write_text("text,note\n" + "".join(f"{text},\n" for text in TEXTS), "utf-8")
    first = mixlens.evaluate(lens, one, out=tmp_path / "run", **HOW)
    monkeypatch.setattr(windows, "records", None)
    assert mixlens.evaluate(lens, two, out=tmp_path / "run", **HOW).rows == first.rows
    with pytest.raises(RunChanged, match="got other rows"):  # the same bytes, but other rows
        mixlens.evaluate(lens, other, out=tmp_path / "run", **HOW)
    two.write_text("text,note\nbad,\n", "utf-8")
    digests = r"fingerprint: was digest \w{8}, now digest \w{8}"
    with pytest.raises(RunChanged, match=rf'{digests}\n  data.name: was "c.csv", now "c2.csv"'):
        mixlens.evaluate(lens, two, out=tmp_path / "run", **HOW)


@pytest.mark.parametrize("changed", [[*TEXTS[:3], "bad film"], TEXTS[:3], [*TEXTS, "bad"]], ids=["row", "less", "more"])
def test_changed_rows_are_refused(
    changed: list[str], lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WINDOW", 2)
    mixlens.evaluate(lens, iter(TEXTS), out=tmp_path / "run", **HOW)
    with pytest.raises(RunChanged, match="expected the data of the run"):
        mixlens.evaluate(lens, iter(changed), out=tmp_path / "run", **HOW)
    file = tmp_path / "data.jsonl"
    file.write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS), "utf-8")
    mixlens.evaluate(lens, file, out=tmp_path / "file", **HOW)
    file.write_text("".join(json.dumps({"text": t}) + "\n" for t in changed), "utf-8")
    with pytest.raises(RunChanged, match=r"data\.fingerprint: was"):
        mixlens.evaluate(lens, file, out=tmp_path / "file", **HOW)


def test_rows_that_changed_while_it_was_down(
    lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped within a window: the rows of that window's finished chunks are not known again by a digest of it."""
    monkeypatch.setattr(windows, "CHUNK", 2)

    with pytest.raises(KeyboardInterrupt):
        mixlens.evaluate(lens, iter(TEXTS), out=tmp_path / "run", progress=stop, **HOW)
    assert list(log.lines(tmp_path / "run"))
    with pytest.raises(RunChanged, match="expected the data of the run"):
        mixlens.evaluate(lens, iter([*TEXTS[:3], "good"]), out=tmp_path / "run", **HOW)


@pytest.mark.parametrize(("method", "sizes"), [("integrated_gradients", [8, 4]), ("grad_l2", [12])])
def test_a_kill_loses_little_where_texts_take_long(
    method: str, sizes: list[int], lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen = windows.records, []
    monkeypatch.setattr(windows, "records", lambda how, some, tick: (seen.append(len(some)), made(how, some, tick))[1])
    mixlens.evaluate(lens, ["good", "bad", "a deep film"] * 4, [method], ["special_rank"])
    assert seen == sizes


def test_one_process_at_a_time(lens: mixlens.Lens, tmp_path: Path) -> None:
    def data() -> Iterator[str]:
        with pytest.raises(ResultFileError, match="another process is writing"):
            mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
        yield from TEXTS

    mixlens.evaluate(lens, data(), out=tmp_path / "run", **HOW)


def test_folders_that_are_no_runs(lens: mixlens.Lens, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.jsonl").write_text("{}\n")
    with pytest.raises(RunChanged, match=r"without a manifest\.json"):
        mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
    (tmp_path / "run" / "manifest.json").write_text("no")
    with pytest.raises(RunChanged, match="no manifest"):
        mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultFileError, match="expected a folder"):
        mixlens.evaluate(lens, TEXTS, out=tmp_path / "file", **HOW)
    with pytest.raises(DataError, match="at least one row"):
        mixlens.evaluate(lens, [], out=tmp_path / "empty", **HOW)


def test_batches_are_those_that_the_run_began_with(
    lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is free when a run goes on makes no other batches, which would round otherwise."""
    monkeypatch.setattr(windows, "CHUNK", 2)
    sizes: list[int] = []
    within = budget.within

    def seen(*given: Any) -> Any:
        found = within(*given)
        sizes.append(found[0])
        return found

    monkeypatch.setattr(calls, "within", seen)

    texts = [TEXTS[2]] * 4
    room = range(10**6, 10**9)
    tight = room[bisect_left(room, 2, key=lambda b: lens.plan(texts, "alti", memory=b).batch_size)]
    monkeypatch.setattr(budget, "_free", lambda device: tight)
    how = {"methods": ["alti"], "measures": ["special_rank"]}
    with pytest.raises(KeyboardInterrupt):
        mixlens.evaluate(lens, texts, out=tmp_path / "run", progress=stop, **how)
    begun = set(sizes)
    sizes.clear()
    monkeypatch.setattr(budget, "_free", lambda device: 10**12)
    mixlens.evaluate(lens, texts, out=tmp_path / "run", **how)
    assert sizes and set(sizes) == begun
    assert 2 in begun
    sizes.clear()
    mixlens.evaluate(lens, texts, **how)
    assert 2 not in sizes
    with pytest.raises(RunChanged, match="memory: was"):
        mixlens.evaluate(lens, texts, out=tmp_path / "run", memory="7GB", **how)


def test_a_run_begun_before_budgets_were_kept_goes_on(lens: mixlens.Lens, tmp_path: Path) -> None:
    first = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    assert manifest.pop("memory") > 0
    path.write_text(json.dumps(manifest), encoding="utf-8")
    again = mixlens.evaluate(lens, TEXTS, out=tmp_path / "run", **HOW)
    assert np.array_equal(first.array, again.array, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_digest_of_weights_is_its_formula(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of the bits, plain and by place, in 64 bits a block: what folders of older versions hold."""
    monkeypatch.setattr(fingerprint, "_BLOCK", 1 << 10)
    monkeypatch.setattr(fingerprint, "_CACHED", 1 << 7)
    weights = torch.randn(2_345, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(dtype)
    bits = weights.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]).tolist()
    sums = [0, 0]
    for start in range(0, len(bits), 1 << 10):
        block = list(enumerate(bits[start : start + (1 << 10)], start + 1))
        for k, total in enumerate((sum(b for _, b in block), sum(b * i * 2654435761 for i, b in block))):
            sums[k] += (total + 2**63) % 2**64 - 2**63
    assert fingerprint.checksum(weights) == f"{sums[0]:x}.{sums[1]:x}"

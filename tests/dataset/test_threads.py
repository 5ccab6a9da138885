"""A window in two threads: the rows of one, in their order; nothing of the process is left otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mixlens
from mixlens.dataset import engines, threads
from mixlens.dataset import window as window_module
from mixlens.dataset.threads import BLOCK, COUNT, dealt
from mixlens.dataset.window import Stopped
from mixlens.errors import NotFinite, OverBudget, UnknownMethod

WORDS = "a deep and meaningful film not bad good slow very".split()
TEXTS = [" ".join(WORDS[(i * k) % 10] for k in range(1, 3 + i % 17)) + " ." for i in range(60)]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


@pytest.fixture(autouse=True)
def cores() -> Iterator[None]:
    """As on a machine with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that explained something."""
    seen: list[str] = []
    whole = window_module._attributions

    def kept(*asked: Any) -> Any:
        seen.append(threading.current_thread().name)
        return whole(*asked)

    monkeypatch.setattr(window_module, "_attributions", kept)
    return seen


def alone(call: Callable[[], mixlens.Explained]) -> mixlens.Explained:
    torch.set_num_threads(1)
    try:
        return call()
    finally:
        torch.set_num_threads(2)


@pytest.mark.parametrize("method", ["globenc", "attcat", "value_zeroing", "blank_out"])
def test_rows_are_those_of_one_thread(lens: mixlens.Lens, names: list[str], method: str) -> None:
    data = [*TEXTS[:20], "", *TEXTS[20:40]]
    one = alone(lambda: mixlens.explain_data(lens, data, method))
    assert set(names) == {"MainThread"}
    names.clear()
    two = mixlens.explain_data(lens, data, method)
    assert {name.rpartition("_")[0] for name in names} == {"mixlens"}  # who is done first may take the other's part too
    assert [text.id for text in one] == [text.id for text in two]
    for a, b in zip(one, two, strict=True):
        assert (a.text, a.target, a.tokens) == (b.text, b.target, b.tokens)
        torch.testing.assert_close(torch.tensor(a.scores), torch.tensor(b.scores), rtol=1e-4, atol=1e-6)
    assert [failed.row for failed in two.failures] == [20]


def test_the_process_has_its_threads_and_its_state_again(lens: mixlens.Lens) -> None:
    mixlens.explain_data(lens, TEXTS, "alti")
    assert torch.get_num_threads() == 2
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [2]  # what is started behind the call has them too
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mixlens_")]


def test_a_number_of_threads_that_the_caller_sets_meanwhile_stays(lens: mixlens.Lens) -> None:
    seen: list[int] = []

    def report(done: int, total: int | None) -> None:
        if len(seen) == 1:  # the first time no thread is there yet
            torch.set_num_threads(3)
        seen.append(done)

    mixlens.explain_data(lens, TEXTS[:4], "random", progress=report)
    assert torch.get_num_threads() == 3


def test_the_threads_work_as_in_a_fresh_process(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = mixlens.explain_data(lens, TEXTS, "alti")
    types: list[torch.dtype] = []
    whole = window_module._attributions

    def kept(*asked: Any) -> Any:
        types.append(torch.zeros(1).dtype)  # as a model's or a package's own code allocates
        return whole(*asked)

    monkeypatch.setattr(window_module, "_attributions", kept)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode(), torch.device("meta"):
            given = mixlens.explain_data(lens, TEXTS, "alti")
    finally:
        torch.set_default_dtype(torch.float32)
    for a, b in zip(expected, given, strict=True):
        torch.testing.assert_close(torch.tensor(a.scores), torch.tensor(b.scores), rtol=1e-5, atol=1e-7)
    assert types and set(types) == {torch.float32}


def test_who_called_is_told_by_its_own_thread(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SECONDS", 0.001)
    monkeypatch.setattr(window_module, "TOGETHER", 8)
    seen: list[tuple[str, int, int | None]] = []
    report = lambda done, total: seen.append((threading.current_thread().name, done, total))  # noqa: E731
    mixlens.explain_data(lens, TEXTS, "alti", progress=report)
    done = [count for _, count, _ in seen]
    assert {name for name, _, _ in seen} == {"MainThread"} and {total for _, _, total in seen} == {60}
    assert done == sorted(done) and done[-1] == 60
    assert any(0 < count < 60 for count in done)  # while the window is made


def test_one_text_that_fails_is_one_row(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = window_module._attributions

    def fails(setting: Any, texts: Any, report: Any) -> Any:
        if any(number == 7 for number, _, _ in texts):
            raise NotFinite("expected finite numbers, got none")
        return whole(setting, texts, report)

    monkeypatch.setattr(window_module, "_attributions", fails)
    explained = mixlens.explain_data(lens, TEXTS, "alti")
    assert [failed.row for failed in explained.failures] == [7] and len(list(explained)) == 59


@pytest.mark.parametrize("first", [True, False])
def test_the_call_s_own_fault_ends_both(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch, first: bool) -> None:
    """Either thread finds it; the other one, which would go on for long, is stopped behind a layer."""
    barrier, ended = threading.Barrier(COUNT), []

    def faulty(setting: Any, texts: Any, report: Any) -> Any:
        barrier.wait(10)
        if first is any(number == 16 for number, _, _ in texts):  # of the longest, so of the first part
            raise UnknownMethod("expected another method")
        late = monotonic() + 20
        try:
            while monotonic() < late:
                report(0, 1)
        except Stopped:
            ended.append(True)
            raise
        return []

    monkeypatch.setattr(window_module, "_attributions", faulty)
    with pytest.raises(UnknownMethod, match="expected another method"):
        mixlens.explain_data(lens, TEXTS, "alti")
    assert ended == [True] and torch.get_num_threads() == 2


def test_ctrl_c_ends_both(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    def for_ever(setting: Any, texts: Any, report: Any) -> Any:
        while True:
            report(0, 1)

    def interrupted(*asked: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(window_module, "_attributions", for_ever)
    monkeypatch.setattr(threads, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mixlens.explain_data(lens, TEXTS, "alti")
    assert torch.get_num_threads() == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mixlens_")]


def test_a_second_ctrl_c_leaves_the_process_its_threads(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ThreadPoolExecutor.shutdown

    def interrupted(pool: ThreadPoolExecutor, *asked: Any, **more: Any) -> Any:
        whole(pool, *asked, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mixlens.explain_data(lens, TEXTS[:4], "random")
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [2]


def test_a_text_too_large_for_half_of_the_memory_has_all_of_it(
    lens: mixlens.Lens, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int | None, bool]] = []
    whole = window_module._attributions

    def kept(setting: Any, texts: Any, report: Any) -> Any:
        large = any(number == 16 for number, _, _ in texts)
        given.append((setting.memory, large))
        if large and setting.memory < 10**9:
            raise OverBudget("expected less")
        return whole(setting, texts, report)

    monkeypatch.setattr(window_module, "_attributions", kept)
    explained = mixlens.explain_data(lens, TEXTS, "alti", memory=10**9)
    assert not explained.failures and len(list(explained)) == 60
    assert (10**9, True) in given and (10**9, False) not in given and (10**9 // COUNT, False) in given


def test_texts_that_are_cut_are_read_while_nobody_else_reads(
    lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tokenizer is told to cut, and not to: two at a time would cut each other's texts."""
    running, seen = [0], []
    whole, read = threads.rows_of_texts, threads.read_window

    def work(*asked: Any) -> Any:
        running[0] += 1
        try:
            return whole(*asked)
        finally:
            running[0] -= 1

    def reads(*asked: Any) -> Any:
        seen.append(running[0])
        return read(*asked)

    monkeypatch.setattr(threads, "rows_of_texts", work)
    monkeypatch.setattr(threads, "read_window", reads)
    monkeypatch.setattr("mixlens.dataset.explain.LEAST", 8)
    explained = mixlens.explain_data(lens, [*TEXTS, "good film " * 400], "alti", truncate=True)
    assert len(seen) == 4 and not any(seen) and not explained.failures


@pytest.mark.parametrize("change", ["a core alone", "another device", "weights elsewhere"])
def test_where_two_gain_nothing_there_is_one(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    assert threads.divides(lens.model)
    if change == "a core alone":
        torch.set_num_threads(1)
    elif change == "another device":
        monkeypatch.setattr(threads, "device_of", lambda model: torch.device("cuda"))
    else:
        monkeypatch.setattr(threads, "offloaded", lambda module: isinstance(module, torch.nn.Linear))
    assert not threads.divides(lens.model)
    monkeypatch.setattr(engines, "Threads", None)
    monkeypatch.setattr(engines, "divides", lambda model: False)
    assert len(list(mixlens.explain_data(lens, TEXTS[:3], "alti"))) == 3


@given(st.lists(st.integers(1, 500), max_size=200))
def test_texts_are_dealt_whole_and_evenly(lengths: list[int]) -> None:
    lengths.sort(reverse=True)
    texts: Any = [(i, None, range(n)) for i, n in enumerate(lengths)]
    parts = dealt(texts)
    assert sorted(i for part in parts for i, _, _ in part) == list(range(len(lengths)))
    assert len(parts) == min(COUNT, len(lengths)) and all(parts)
    for part in parts:
        assert [i for i, _, _ in part] == sorted(i for i, _, _ in part)  # the longest first
    if len(parts) == COUNT:
        size = max(1, min(BLOCK, len(lengths) // 8))
        weights = [sum(lengths[i] for i, _, _ in part) for part in parts]
        assert abs(weights[0] - weights[1]) <= sum(lengths[:size])  # by no more than a block

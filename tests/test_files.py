"""Output goes where it is told: devices and pipes, links, read-only files, full disks, and what killed writes leave."""

from __future__ import annotations

import csv
import gzip
import io
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mixlens
from mixlens import files
from mixlens.errors import ResultFileError
from mixlens.tasks import source

posix = pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
FULL = Path("/dev/full")
full = pytest.mark.skipif(not FULL.exists(), reason="no such device here")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@posix
def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    files.write_text(pipe, "a page" * 50_000)
    reader.join(20)
    assert got == ["a page" * 50_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == {"pipe"}


@full
def test_a_device_stays_what_it_is_and_may_be_full(tmp_path: Path) -> None:
    link = tmp_path / "page.html"
    link.symlink_to(FULL)
    with pytest.raises(ResultFileError, match=r"expected to write .*, got: No space left on device; check"):
        files.write_text(link, "a page")  # the device itself is never named here
    assert stat.S_ISCHR(FULL.stat().st_mode)
    assert link.is_symlink()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no such folder here")
def test_an_open_file_by_its_number_is_written_through() -> None:
    """As `/dev/stdout` is, which no test may name: code that replaces it would take it from everybody."""
    code = "from mixlens import files; files.write_text('/proc/self/fd/1', 'a page')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("a page", "", 0)


@posix
def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link, loose = tmp_path / "real" / "a.html", tmp_path / "a.html", tmp_path / "b.html"
    target.write_text("old")
    link.symlink_to(target)
    loose.symlink_to(Path("real") / "b.html")
    for path in (link, loose):
        files.write_text(path, "new")
        assert path.is_symlink()
        assert (tmp_path / "real" / path.name).read_text() == "new"
    assert names(tmp_path / "real") == {"a.html", "b.html"}
    link.unlink()
    link.symlink_to("a.html")
    with pytest.raises(ResultFileError, match="expected to write"):
        files.write_text(link, "new")


def test_a_read_only_file_is_refused_for_root_too(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(ResultFileError, match=r"got a read-only one: .*a\.html; name another"):
        files.write_text(path, "new")
    assert (path.read_text(), names(tmp_path)) == ("old", {"a.html"})
    path.chmod(0o644)


@posix
def test_a_file_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")
    path.chmod(0o600)
    files.write_text(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


def test_an_empty_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResultFileError, match="expected the path of a file, got an empty one"):
        files.write_text("", "a page")
    with pytest.raises(ResultFileError, match="expected the path of a folder, got an empty one"):
        mixlens.evaluate(None, ["a"], out="")
    assert not names(tmp_path)


@pytest.mark.parametrize("name", ["x" * 300, "文" * 90, "a\0b"])
def test_a_name_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(ResultFileError, match=r"expected (to write|the path of a file)"):
        files.write_text(tmp_path / name, "a page")
    with pytest.raises(ResultFileError, match=r"expected (to write|the path of a file)"):
        files.write_text(f"{tmp_path}/{name}/a", "a page")
    with pytest.raises(ResultFileError, match="expected a result file"):
        mixlens.read(tmp_path / name)


@pytest.mark.parametrize("path", ["half of a pair \ud800", None, 5, b"a", ["a"]])
def test_what_is_no_path(path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (lambda: files.write_text(path, "a page"), lambda: files.folder_of(path), lambda: mixlens.read(path)):
        with pytest.raises(
            ResultFileError, match=r"^expected (the path of a (file|folder)|path= a path, or None), got"
        ):
            use()
    assert not names(tmp_path)


@pytest.mark.parametrize("name", ["x" * 255, "文" * 85])
def test_the_longest_names(name: str, tmp_path: Path) -> None:
    files.write_text(tmp_path / name, "a page")
    assert names(tmp_path) == {name}


@posix
def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path: Path) -> None:
    code = (
        "import sys, time; from mixlens import files\n"
        f"with files.replacing({str(tmp_path / 'a.html')!r}) as path:\n"
        "    path.write_text('half'); print('there', flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    (left,) = names(tmp_path)
    files.write_text(tmp_path / "a.html", "of another process")  # what one alive writes stays
    assert names(tmp_path) == {left, "a.html"}
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    files.write_text(tmp_path / "b.html", "another name")
    assert left in names(tmp_path)
    files.write_text(tmp_path / "a.html", "whole")
    assert names(tmp_path) == {"a.html", "b.html"}


@posix
def test_a_number_that_a_killed_process_had_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container every process has the same number."""
    with files.replacing(tmp_path / "a.html") as first:
        with files.replacing(tmp_path / "a.html") as second:
            second.write_text("inner")
        assert first.exists()  # an open one is no leftover
        first.write_text("outer")
    with files.replacing(tmp_path / "a.html") as kept:
        kept.rename(tmp_path / "held")
        kept.touch()
    (tmp_path / "held").rename(kept)  # as if the process had died, and its number were this one's
    files.write_text(tmp_path / "a.html", "whole")
    assert names(tmp_path) == {"a.html"}


# ---- tables


CELLS = ["=1+1", "+1", "-", "@x", "\t=1", "\r=1", "'=1", "''-", "'a'", "a=b", "", 'he said "no"\n', "-film, 'good'"]


def test_no_spreadsheet_runs_a_cell_and_every_one_comes_back(tmp_path: Path) -> None:
    columns = ("method", "index", "token", "faithfulness")
    rows = [{"method": "alti", "index": -i, "token": text, "faithfulness": -0.5} for i, text in enumerate(CELLS)]
    rows.append({"method": "alti", "index": 0, "token": None, "faithfulness": None})
    text = files.csv_text(columns, rows)
    cells = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert not any(row[2].startswith(("=", "+", "-", "@", "\t", "\r")) for row in cells)
    assert [(row[1], row[3]) for row in cells[1:3]] == [("-1", "-0.5"), ("-2", "-0.5")]  # numbers stay numbers
    assert cells[-1] == ["alti", "0", "", ""]
    files.write_text(tmp_path / "t.csv", text)
    assert [row["token"] for row in source(tmp_path / "t.csv").rows()][:-1] == CELLS


def test_a_table_of_others_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,label\n'-tis,1\n", "utf-8")
    assert next(iter(source(tmp_path / "d.csv").rows())) == {"text": "'-tis", "label": "1"}


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "A.JSONL.GZ"])
def test_a_file_is_read_unzipped_where_its_name_says_so(tmp_path: Path, name: str) -> None:
    data = b'{"text": "caf\xc3\xa9"}\r\n'
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    with files.unzipped(tmp_path / name) as file:
        assert file.read() == data

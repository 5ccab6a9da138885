"""`mixlens app`: what it says when it starts, and when it cannot."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.typed import one_line_error
from mixlens.cli import app


def run(*words: str):
    return CliRunner().invoke(app, ["app", *words])


def test_without_the_extra(monkeypatch):
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "starlette" or name.startswith("mixlens.app")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install ".[app]"' in one_line_error(run())


def test_without_what_reads_files(monkeypatch):
    pytest.importorskip("starlette", reason='needs the extra "app"')
    for name in [name for name in sys.modules if name.startswith("mixlens.app")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("python_multipart", "multipart"):  # as older ones are called
        monkeypatch.setitem(sys.modules, name, None)
    assert "mixlens app needs the package python-multipart" in one_line_error(run())


def test_a_model_that_is_not_there_is_said_before_anything_is_served(tmp_path):
    pytest.importorskip("starlette", reason='needs the extra "app"')
    assert "expected a folder with a saved model" in one_line_error(run(str(tmp_path / "nothing")))


def test_a_port_that_is_taken():
    pytest.importorskip("starlette", reason='needs the extra "app"')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"expected a --host of this machine and a --port that is free, got '127.0.0.1' and {port}" in (
            one_line_error(run("--port", str(port)))
        )


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_that_is_started_answers_and_ends(tiny_bert_folder: Path, host: str):
    pytest.importorskip("starlette", reason='needs the extra "app"')
    words = [sys.executable, "-m", "mixlens", "app", str(tiny_bert_folder), "--port", "0", "--host", host]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        address = re.fullmatch(
            r"mixlens is at http://([^:]+):(\d+)/(\?token=\S{32})?( \(this machine alone\))?; .*\n", line
        )
        assert address is not None, line
        assert (address[3] is None) == (address[4] is not None) == (host == "127.0.0.1")
        place = f"http://127.0.0.1:{address[2]}"
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        if address[3]:
            with pytest.raises(urllib.error.HTTPError, match="401"):
                opener.open(f"{place}/explain", timeout=10)
        assert b"<form" in opener.open(f"{place}/{address[3] or ''}", timeout=10).read()
        page = opener.open(f"{place}/explain?text=a+deep+film+.&method=attention", timeout=60).read()
        assert b"application/octet-stream" in page
    finally:
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=20)
    assert server.returncode == 0 and "Traceback" not in errors, errors

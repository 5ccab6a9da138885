"""The line that shows while the work goes on, and what becomes of it on Ctrl-C."""

from __future__ import annotations

import time

from cli.typed import TEXT
from mixlens.cli import running


def test_progress_shows_only_after_a_second_and_only_on_a_terminal(monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(running, "DELAY", 0.05)
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    with running.progress("quick"):
        pass
    assert "quick" not in capsys.readouterr().err
    with running.progress("slow") as line:
        line.report(1, 2)
        time.sleep(0.5)
    assert "slow" in capsys.readouterr().err
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: False))
    with running.progress("piped"):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_counted_lines_where_there_is_no_terminal(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    line = running.ProgressLine("loading", counted=True)
    line.stage("first part")
    line.report(300, 1000)  # the run goes on here: these are not what the rate is made of
    now[0] += 61
    line.report(361, 1000)
    now[0] += 100
    line.report(930, 1000)
    line.stage("second part")
    line.report(0, None)
    now[0] += 200
    line.report(50, None)
    assert capsys.readouterr().err.splitlines() == [
        "first part: 361 of 1000, 1/s, 11 min left",
        "first part: 930 of 1000, 3.91/s, 18 s left",
        "second part: 50, 0.25/s",
    ]


def test_what_the_progress_line_says(monkeypatch):
    from mixlens.view.kit.terminal import as_text

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    line = running.ProgressLine("loading the model", counted=True)
    line.bar.get_time = lambda: now[0]
    line.stage("evaluating")
    shown = []

    def look(seconds: float) -> None:
        now[0] += seconds
        (task,) = line.bar.tasks
        shown.append(" ".join(as_text(line.bar.make_tasks_table([task])).split("━")[-1].split()))

    look(5)
    line.report(40, 100)  # those that were there already
    look(10)
    line.report(60, 100)
    look(5)
    line.stage("another part")
    line.report(0, None)
    look(10)
    line.report(7, None)
    look(1)
    assert shown == [
        "0:00:05 elapsed",
        "40/100 0:00:15 elapsed",
        "60/100 2/s 0:00:20 elapsed, 0:00:15 left",
        "0:00:10 elapsed",
        "7 0.7/s 0:00:11 elapsed",
    ]


def test_interrupted_is_130(cli, monkeypatch):
    def interrupt(model):
        raise KeyboardInterrupt

    monkeypatch.setattr("mixlens.cli.explaining.load", interrupt)
    assert cli("explain", TEXT).exit_code == 130

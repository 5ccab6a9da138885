"""What a trace would take, against what it does."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

import mixlens
from cli.typed import one_line_error
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.budget import Plan
from mixlens.cli import app
from mixlens.errors import InputError, Undefined, UnknownOption
from mixlens.trace import calls
from models import chats, families, translators

OPTIONS = {
    "integrated_gradients": [{"tolerance": 1.0}],
    "path_logit": [{}, {"paths": "all"}],
    "blank_out": [{"replace": "delete"}],
    "leave_one_out": [{"units": "token"}],
    "context_cite": [{"units": "token"}],
}


@pytest.fixture(scope="module")
def lens():
    return families.lens("llama", "causal")


def named(lens):
    """The methods that trace an answer of this model, by name and options."""
    supported = lens.check().supports
    return [(name, options) for name in ATTRIBUTIONS if not supported[name] for options in OPTIONS.get(name, [{}])]


@pytest.mark.slow
def test_what_asks_for_each_token_alone_says_so(lens, monkeypatch):
    """Of every method: what is said before is what is done."""
    done = []
    alone = calls._alone
    monkeypatch.setattr(calls, "_alone", lambda *args: done.append("alone") or alone(*args))
    said = {}
    for name, options in named(lens):
        done.clear()
        lens.trace([5, 6, 7], [8, 9], name, **options)
        way = ATTRIBUTIONS[name].for_spec(lens.spec).traced(lens.subject, options)
        assert (way == "alone") == (done == ["alone"]), (name, options)
        said.setdefault(way, []).append(name)
    assert {"alti", "path_logit", "flashtrace"} <= set(said["together"])
    assert {"saliency", "attn_lrp"} <= set(said["backward"]) and {"blank_out", "attention"} & set(said["alone"])


def test_passes_and_memory(lens):
    text, reply = [5, 6, 7, 8], [9, 10, 11]
    for name, passes in (
        ("blank_out", 3 * 7),
        ("saliency", 1 + 3 * (lens.plan(text + reply, "saliency").passes - 1)),
        ("alti", lens.plan(text + reply, "alti").passes),
    ):
        plan = lens.plan_trace(text, reply, name)
        assert isinstance(plan, Plan) and (plan.texts, plan.tokens) == (1, 7)
        assert plan.passes == pytest.approx(passes)
        longer = lens.plan_trace(text, None, name, max_new_tokens=3)
        assert longer.passes == pytest.approx(passes + 1) and longer.peak_bytes == plan.peak_bytes
        assert longer.time.endswith("(up to 3), behind up to 3 tokens that are generated")
    assert not lens.plan_trace(text, reply, "alti", memory="1MB").fits
    assert "backward once for each answer token (3)" in str(lens.plan_trace(text, reply, "saliency"))


def test_nothing_is_run(lens, monkeypatch):
    def forward(*_, **__):
        raise AssertionError("the model ran")

    monkeypatch.setattr(torch.nn.Embedding, "forward", forward)
    assert lens.plan_trace([5, 6], None, "alti", max_new_tokens=5).tokens == 7


def test_what_is_refused(lens):
    with pytest.raises(UnknownOption, match="alti would ignore the option 'steps'"):
        lens.plan_trace([5, 6], [7], "alti", steps=3)
    with pytest.raises(InputError, match="causal language model"):
        families.lens("bert", "sequence").plan_trace("w5", "w6")
    with pytest.raises(Undefined, match="a trace is planned of causal language models"):
        translators.lens("bart").plan_trace([5, 6], [7])


def test_on_the_command_line(tmp_path, monkeypatch):
    chats.folder(tmp_path / "chat")
    (tmp_path / "menu.txt").write_text("w7 w8", "utf-8")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    words = ["trace", "w5 w6", "--model", "chat", "--document", "menu=menu.txt", "--method", "alti", "--plan"]
    result = runner.invoke(app, [*words, "--max-new-tokens", "4"])
    lens = mixlens.load("chat")
    asked = lens.plan_trace(
        [{"role": "user", "content": "w5 w6"}], None, "alti", documents={"menu": "w7 w8"}, max_new_tokens=4
    )
    assert result.exit_code == 0 and result.output.split("; about")[0] == str(asked).split("; about")[0]
    written = runner.invoke(app, [*words, "--html", "x.html"])
    assert written.exit_code == 2 and "--plan does no more than say" in written.stderr
    explained = runner.invoke(app, ["explain", "w5 w6", "--model", "chat", "--method", "blank_out", "--plan"])
    assert explained.output.startswith("blank_out, 1 text(s) of up to ") and "one pass a token" in explained.output
    assert "alti would ignore" in one_line_error(runner.invoke(app, [*words, "-o", "steps=3"]))
    data = json.loads(runner.invoke(app, [*words, "--max-new-tokens", "4", "--json", "-"]).stdout)
    assert {**data, "budget": 0} == {**asked.to_dict(), "budget": 0} and data["fits"] is True

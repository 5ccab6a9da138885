"""Measures of what a data set marks: cues, answers, rationales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from evaluation.alone import scores
from mixlens.target import Target
from models.families import MASK, make
from models.words import tokenizer


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder), dtype=torch.float64)  # no limit below hangs on how a machine rounds


def test_cue_of_a_masked_word() -> None:
    masked = mixlens.load(make("bert", "masked"), tokenizer())
    row = {"text": "w5 w6 w7 w8", "target": "w7", "foil": "w9", "target_span": [6, 8], "cue_spans": [[3, 5]]}
    rows = [row, {**row, "target_span": [0, 2], "target": "w5", "cue_spans": [[9, 11]], "phrase_spans": [[6, 11]]}]
    measures = ["cue_dot", "cue_ap", "probes_needed", "aopc", ("phrase", "cue_dot", {"spans": "phrase"})]
    table = mixlens.evaluate(masked, rows, ["value_zeroing", "attcat"], measures, task="agreement")
    for i, (text, cue) in enumerate((("w5 w6 [MASK] w8", 2), ("[MASK] w6 w7 w8", 4))):
        goal = Target(rows[i]["target"], foil="w9")  # type: ignore[arg-type]
        own = np.abs(scores(masked, text, "attcat", goal))
        assert table.values("cue_dot", "attcat")[i] == pytest.approx(own[cue] / own.sum(), abs=1e-6)
        ids = masked.attribute(text, "random").source.ids
        with torch.no_grad():
            z = masked.model(input_ids=torch.tensor([ids])).logits[0, ids.index(MASK)].double()
        expected = float(torch.sigmoid(z[5 if i else 7] - z[9]))
        assert table.curve("aopc", "attcat")[i, 0] == pytest.approx(expected, abs=1e-6)
        assert np.isfinite(table.curve("aopc", "attcat")[i]).all()  # the [MASK] is never taken out
    assert np.isnan(table.values("phrase", "attcat")[0])
    own = np.abs(scores(masked, "[MASK] w6 w7 w8", "attcat", Target("w5", foil="w9")))
    assert table.values("phrase", "attcat")[1] == pytest.approx(own[3:5].sum() / own.sum(), abs=1e-6)


def test_answers() -> None:
    from transformers import BertForQuestionAnswering

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForQuestionAnswering(make("bert").config).eval()
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    asked = mixlens.load(model, tokenizer())
    row = {"question": "w5 w6", "context": "w7 w8 w9", "answer": "w8 w9", "answer_start": 3}
    for target in (None, "label"):
        table = mixlens.evaluate(
            asked, [row], ["saliency"], ["precision_at_k", "aopc"], task="question", target=target,
            options={"precision_at_k": {"k": 3}},
        )  # fmt: skip
        goal = None if target is None else Target(position=(5, 6))
        own = scores(asked, ("w5 w6", "w7 w8 w9"), "saliency", goal)
        hits = len({5, 6} & set(np.argsort(-own, kind="stable")[:3].tolist()))
        assert table.values("precision_at_k", "saliency")[0] == hits
        assert np.isfinite(table.curve("aopc", "saliency")[0, 0])


def test_rationales(lens: mixlens.Lens) -> None:
    from sklearn.metrics import auc, f1_score, precision_recall_curve

    rows: list[dict[str, Any]] = [
        {"tokens": "a deep film .".split(), "rationales": [[0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]]},
        {"tokens": "not a very bad film".split(), "rationales": [1, 0, 0, 1, 0]},
        {"tokens": ["bad", "film"], "rationales": []},
    ]
    table = mixlens.evaluate(lens, rows, ["alti", "saliency"], ["auprc", "token_f1", "iou"], task="rationales")
    for i, marks in enumerate(([0, 1, 1, 0], [1, 0, 0, 1, 0])):  # of votes, what half of them marked
        for method in ("alti", "saliency"):
            text = scores(lens, mixlens.Words(rows[i]["tokens"]), method)[1:-1]  # without [CLS] and [SEP]
            precision, recall, _ = precision_recall_curve(marks, text)
            assert table.values("auprc", method)[i] == pytest.approx(auc(recall, precision))
            highest = np.isin(np.arange(len(marks)), np.argsort(-text, kind="stable")[: sum(marks)])
            assert table.values("token_f1", method)[i] == pytest.approx(f1_score(marks, highest))
            assert table.values("iou", method)[i] == pytest.approx((highest & marks).sum() / (highest | marks).sum())
    row = table.row("auprc", "alti")
    assert (row.n, row.n_undefined, row.n_errors) == (2, 1, 0)  # nothing is marked in the last

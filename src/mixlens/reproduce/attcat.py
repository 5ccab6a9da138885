"""Qiang et al. 2022 (AttCAT): Tables 1 and 2, Figures 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixlens.errors import UnknownOption
from mixlens.evaluation import Table
from mixlens.reproduce.findings import Claim, Findings, Method, Number, Panel, Values
from mixlens.reproduce.study import Study

_INPUT = {"indexing": "input"}
METHODS: list[Method] = [
    ("RawAtt", "attention", {"zero_cls": True}),
    ("Rollout", "attention_rollout", {"zero_cls": True}),
    ("Grads", "grads", {}),
    ("AttGrads", "att_grads", {}),
    ("PartialLRP", "partial_lrp", {"zero_cls": True}),
    ("TransAtt", "trans_att", {"zero_cls": True}),
    ("CAT", "cat", {}),
    ("AttCAT", "attcat", {}),
    ("CAT, input indexing", "cat", _INPUT),
    ("AttCAT, input indexing", "attcat", _INPUT),
]
_NAMES = tuple(label for label, _, _ in METHODS)
_CLASSY = tuple(n for n in _NAMES if n not in ("RawAtt", "Rollout"))


@dataclass(frozen=True)
class Set:
    """A data set: the model's role, task, file, and the columns of the paper's Tables 1 (AOPC, LOdds) and 2."""

    role: str
    task: str
    file: str
    aopc: tuple[float, ...]
    log_odds: tuple[float, ...]
    kendall: tuple[float, ...]
    truncate: bool = False
    at_most: int = 2000


SETS = {
    "SST-2": Set(
        "sst2",
        "classification",
        "sst2/dev.jsonl",
        (0.331, 0.286, 0.335, 0.351, 0.341, 0.354, 0.352, 0.371),
        (-0.885, -0.641, -0.252, -0.603, -0.922, -1.038, -1.115, -1.319),
        (0.150, 0.116, 0.955, 0.336, 0.101, 0.018),
    ),
    "MRPC (paper: QQP)": Set(
        "paraphrase",
        "pairs",
        "paraphrase_mrpc/test.jsonl",
        (0.143, 0.139, 0.141, 0.143, 0.142, 0.145, 0.134, 0.139),
        (0.149, 0.262, 0.184, 0.113, 0.137, 0.114, 0.121, 0.073),
        (0.236, 0.198, 0.949, 0.222, 0.373, 0.349),
    ),
    "SNLI (paper: MNLI)": Set(
        "inference",
        "pairs",
        "nli_snli/test.jsonl",
        (0.138, 0.151, 0.156, 0.159, 0.138, 0.130, 0.157, 0.164),
        (0.235, 0.321, 0.139, 0.114, 0.231, 0.214, 0.121, 0.008),
        (0.169, 0.156, 0.935, 0.339, 0.339, 0.017),
    ),
    "Amazon": Set(
        "sst2",
        "classification",
        "review_sentences/amazon_test.jsonl",
        (0.384, 0.324, 0.316, 0.346, 0.418, 0.415, 0.409, 0.457),
        (-1.729, -1.303, -1.820, -1.941, -2.019, -1.889, -2.157, -2.332),
        (0.146, 0.148, 0.965, 0.152, 0.095, 0.015),
    ),
    "Yelp": Set(
        "sst2",
        "classification",
        "review_sentences/yelp_test.jsonl",
        (0.394, 0.277, 0.414, 0.439, 0.424, 0.434, 0.421, 0.473),
        (-2.017, -1.055, -1.994, -2.054, -2.199, -2.508, -2.587, -3.169),
        (0.174, 0.132, 0.952, 0.121, 0.107, 0.008),
    ),
    "IMDB": Set(
        "sst2",
        "classification",
        "imdb/dev.jsonl",
        (0.298, 0.331, 0.304, 0.310, 0.312, 0.421, 0.406, 0.528),
        (-1.245, -1.323, -1.227, -1.267, -1.321, -2.137, -3.052, -3.671),
        (0.098, 0.064, 0.858, 0.043, 0.056, 0.023),
        truncate=True,
    ),
}
_NOTES = (
    "Amazon and Yelp are sentences of reviews, and they and IMDB are explained on the SST-2 model; the paper tunes a "
    "BERT for each set. IMDB: the 245 reviews of the dev part, cut to the model's 512 positions (recorded).",
    "CAT and AttCAT stand in both indexings: the paper's formula (layer outputs) and its code's (layer inputs).",
    "The model's own prediction is explained, as the paper's y-hat; its code explains the gold label.",
)


def deletion(study: Study, name: str) -> Table:
    """AOPC and log-odds of all methods on one of `SETS`."""
    return _evaluated(study, name, "deletion", METHODS, ("aopc", "log_odds"))


def confidence(study: Study, name: str) -> Table:
    """Kendall confidence of the class-specific methods on one of `SETS`."""
    methods = [m for m in METHODS if m[0] in _CLASSY]
    return _evaluated(study, name, "confidence", methods, ("kendall_confidence",))


def _evaluated(study: Study, name: str, what: str, methods: Sequence[Method], measures: Sequence[str]) -> Table:
    one = SETS[name]
    few = study.costly if one.truncate else None  # texts of hundreds of tokens
    rows = study.rows(one.file, at_most=min(one.at_most, few or one.at_most))
    part = f"attcat-{what}-{_slug(name)}" + ("" if few is None else f"-{few}")
    return study.evaluate(part, one.role, rows, methods, measures, task=one.task, truncate=one.truncate)


def table1(study: Study) -> Findings:
    """AOPC (deletion) and log-odds ([PAD]) of ten methods on six data sets."""
    values: dict[tuple[str, str], Values | Number] = {}
    paper: dict[tuple[str, str], float] = {}
    better: dict[str, int] = {}
    for name, one in SETS.items():
        table = deletion(study, name)
        for measure, title, sign, published in (
            ("aopc", f"{name} AOPC", 1, one.aopc),
            ("log_odds", f"{name} LOdds", -1, one.log_odds),
        ):
            better[title] = sign
            values |= {(label, title): table.values(measure, label) for label in _NAMES}
            paper |= {(label, title): v for label, v in zip(_NAMES, published, strict=False)}
    panel = Panel("AOPC and log-odds", _NAMES, tuple(better), values, paper, better, resamples=study.resamples)
    claims = [panel.beats(f"AttCAT is the best method ({title})", title, "AttCAT", _NAMES[:8]) for title in better] + [
        panel.beats(
            f"AttCAT as the authors' code computes it is the best ({title})", title, _NAMES[9], (*_NAMES[:6], _NAMES[8])
        )
        for title in better
    ]
    return Findings((panel,), tuple(claims), _NOTES)


def table2(study: Study) -> Findings:
    """Kendall's tau between the explanations of two classes (lower: more confident)."""
    values: dict[tuple[str, str], Values | Number] = {}
    paper: dict[tuple[str, str], float] = {}
    for name, one in SETS.items():
        table = confidence(study, name)
        values |= {(label, name): table.values("kendall_confidence", label) for label in _CLASSY}
        paper |= {(label, name): v for label, v in zip(_CLASSY, one.kendall, strict=False)}
    better = dict.fromkeys(SETS, -1)
    panel = Panel("Kendall confidence", _CLASSY, tuple(SETS), values, paper, better, resamples=study.resamples)
    claims = [panel.beats(f"AttCAT is the most confident ({name})", name, "AttCAT", _CLASSY[:6]) for name in SETS]
    note = "Tau of the two index permutations, as the paper defines it: positions are compared, not ranks."
    return Findings((panel,), tuple(claims), (*_NOTES, note))


def figure3(study: Study) -> Findings:
    """Precision@20 of extractive question answering: how many answer tokens are among the 20 highest."""
    if "question" not in study.models and "*" not in study.models:
        raise UnknownOption(
            "attcat-figure3 needs a question answering model, and none can be trained or had here: name one with "
            "--model question=MODEL (bert-large-uncased-whole-word-masking-finetuned-squad, say)"
        )
    rows = study.rows("qa_xquad_en/test.jsonl")
    methods = [m for m in METHODS if m[0] not in ("PartialLRP", "TransAtt")]  # no relevance rules for this head
    table = study.evaluate(
        "attcat-precision", "question", rows, methods, ("precision_at_k",), task="question", truncate=True
    )
    names = tuple(label for label, _, _ in methods)
    values = {(label, "Precision@20"): table.values("precision_at_k", label) for label in names}
    panel = Panel("Precision@20", names, ("Precision@20",), values, resamples=study.resamples)
    return Findings((panel,), (panel.beats("AttCAT is superior", "Precision@20", "AttCAT", names[:6]),))


def figure4(study: Study) -> Findings:
    """AttCAT's scores layer by layer, their sum, and the rollout, of one sentence (authors' indexing)."""
    lens = study.lens("sst2")
    text = "i do not like this movie ."
    attcat = lens.attribute(text, method="attcat", **_INPUT)
    rollout = lens.attribute(text, method="attention_rollout")
    layers = attcat.layers.double().numpy()
    rows = [*(f"L{k}" for k in range(len(layers))), "Rollout", "Sum"]
    parts = np.vstack([layers, rollout.scores.double().numpy(), attcat.scores.double().numpy()])
    tokens = tuple(f"{i} {t}" for i, t in enumerate(attcat.tokens))
    values: dict[tuple[str, str], Values | Number] = {
        (row, token): Number(float(parts[r, c])) for r, row in enumerate(rows) for c, token in enumerate(tokens)
    }
    panel = Panel(f"AttCAT of {text!r}", tuple(rows), tokens, values, better=dict.fromkeys(tokens, 0))
    strength = np.abs(layers).max(1)
    half = len(layers) // 2
    claim = Claim(
        "Scores become less impactful as the layer goes deeper",
        "holds" if strength[:half].mean() > strength[half:].mean() else "reversed",
        f"largest score of the layers: {', '.join(f'{s:.3f}' for s in strength)}",
    )
    return Findings((panel,), (claim,), (f"The model answers {attcat.target.label!r}.",))


def _slug(name: str) -> str:
    return "".join(c for c in name.split(" (")[0].lower() if c.isalnum())

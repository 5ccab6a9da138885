"""Qiang et al. 2022 (AttCAT): Tables 1 and 2, Figures 3 and 4."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from mixlens.evaluation import Table
from mixlens.reproduce.claims import STRONG, Claim, Pair, beats, least
from mixlens.reproduce.findings import Findings, Method, Number, Panel, Values
from mixlens.reproduce.study import DataRow, Study
from mixlens.results import Attribution

_INPUT: dict[str, Any] = {"indexing": "input"}
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


def _evaluated(study: Study, name: str, purpose: str, methods: Sequence[Method], measures: Sequence[str]) -> Table:
    dataset = SETS[name]
    few = study.costly if dataset.truncate else None  # texts of hundreds of tokens
    rows = study.rows(dataset.file, at_most=min(dataset.at_most, few or dataset.at_most))
    part = f"attcat-{purpose}-{_slug(name)}" + ("" if few is None else f"-{few}")
    return study.evaluate(part, dataset.role, rows, methods, measures, task=dataset.task, truncate=dataset.truncate)


def table1(study: Study) -> Findings:
    """AOPC (deletion) and log-odds ([PAD]) of ten methods on six data sets."""
    values: dict[tuple[str, str], Values | Number] = {}
    paper: dict[tuple[str, str], float] = {}
    better: dict[str, int] = {}
    for name, dataset in SETS.items():
        table = deletion(study, name)
        for measure, title, sign, published in (
            ("aopc", f"{name} AOPC", 1, dataset.aopc),
            ("log_odds", f"{name} LOdds", -1, dataset.log_odds),
        ):
            better[title] = sign
            values |= {(label, title): table.values(measure, label) for label in _NAMES}
            paper |= {(label, title): v for label, v in zip(_NAMES, published, strict=False)}
    kind = {title: "log odds" if title.endswith("LOdds") else "probability" for title in better}
    panel = Panel("AOPC and log-odds", _NAMES, tuple(better), values, paper, better, kind, resamples=study.resamples)
    return Findings((panel,), _NOTES)


def table1_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Section 6.1: AttCAT before all and before TransAtt, CAT after it, the attention-based methods last."""
    (panel,) = panels
    code, others = _NAMES[9], (*_NAMES[:6], _NAMES[8])
    orders = (
        ("AttCAT is the best method", "AttCAT", _NAMES[:8], 1),
        ("AttCAT as the authors' code computes it is the best", code, others, 1),
        ("AttCAT outperforms TransAtt", "AttCAT", ("TransAtt",), 1),
        ("CAT drops markedly behind AttCAT", "AttCAT", ("CAT",), STRONG),
        ("CAT drops markedly behind AttCAT, both as the code computes it", code, (_NAMES[8],), STRONG),
    )
    return [
        beats(panel, f"{text} ({column})", column, best, rivals, times)
        for text, best, rivals, times in orders
        for column in panel.columns
    ] + [
        Claim(
            f"RawAtt and Rollout perform worst ({column})",
            tuple(
                Pair(panel.title, column, other, worst, least(panel, column))
                for worst in ("RawAtt", "Rollout")
                for other in _CLASSY[:6]
            ),
        )
        for column in panel.columns
    ]


def table2(study: Study) -> Findings:
    """Kendall's tau between the explanations of two classes (lower: more confident)."""
    values: dict[tuple[str, str], Values | Number] = {}
    paper: dict[tuple[str, str], float] = {}
    for name, dataset in SETS.items():
        table = confidence(study, name)
        values |= {(label, name): table.values("kendall_confidence", label) for label in _CLASSY}
        paper |= {(label, name): v for label, v in zip(_CLASSY, dataset.kendall, strict=False)}
    better = dict.fromkeys(SETS, -1)
    panel = Panel("Kendall confidence", _CLASSY, tuple(SETS), values, paper, better, resamples=study.resamples)
    note = "Tau of the two index permutations, as the paper defines it: positions are compared, not ranks."
    return Findings((panel,), (*_NOTES, note))


def table2_claims(panels: Sequence[Panel]) -> list[Claim]:
    """AttCAT is the most confident, by the paper's formula and by its code's."""
    (panel,) = panels
    code, others = _CLASSY[7], (*_CLASSY[:4], _CLASSY[6])
    orders = (
        ("AttCAT is the most confident", "AttCAT", _CLASSY[:6]),
        ("AttCAT as the authors' code computes it is the most confident", code, others),
    )
    return [beats(panel, f"{text} ({c})", c, best, rivals) for text, best, rivals in orders for c in panel.columns]


def figure3(study: Study) -> Findings:
    """Precision@20 of extractive question answering: how many answer tokens are among the 20 highest."""
    rows = study.rows("qa_xquad_en/test.jsonl", held_out)
    methods = [m for m in METHODS if m[0] not in ("PartialLRP", "TransAtt")]  # no relevance rules for this head
    settings: dict[str, Any] = {"task": "question", "truncate": True}
    table = study.evaluate("attcat-precision", "question", rows, methods, ("precision_at_k",), **settings)
    rows_of = {label: label for label, _, _ in methods} | {"Random scores": "random"}
    values = {(row, "Precision@20"): table.values("precision_at_k", label) for row, label in rows_of.items()}
    panel = Panel("Precision@20", tuple(rows_of), ("Precision@20",), values, kind="tokens", resamples=study.resamples)
    notes = (
        "XQuAD's English questions (240 paragraphs of SQuAD 1.1's dev part), on the paragraphs that the model was not "
        "tuned on; the paper has SQuAD 1.1 and 2.0. The model is a weak answerer (docs/tuned-models.md says how weak): "
        "its own answer is explained, and the gold answer's tokens are looked for.",
        "RawAtt, Rollout, Grads and AttGrads are read in the rows of the answer's first and last token, which look at "
        "what stands beside them: at the answer, where the model is right. The authors' code reads RawAtt in the last "
        "row, [SEP]'s, of the layers' mean, and Rollout as a mean over all rows and layers.",
        "PartialLRP and TransAtt have no rules for a question answering head here.",
    )
    return Findings((panel,), notes)


def figure3_claims(panels: Sequence[Panel]) -> list[Claim]:
    """AttCAT is superior, by the paper's formula and by its code's."""
    (panel,) = panels
    column, plain = panel.columns[0], ("RawAtt", "Rollout", "Grads", "AttGrads")
    code = "AttCAT as the authors' code computes it is superior"
    return [
        beats(panel, "AttCAT is superior", column, "AttCAT", (*plain, "CAT")),
        beats(panel, code, column, _NAMES[9], (*plain, _NAMES[8])),
    ]


def held_out(row: Mapping[str, Any], _: int) -> bool:
    """A question about one of the paragraphs, two of five, that the embedded model was not tuned on.

    By a digest of the paragraph, so no paragraph stands on both sides (experiments/recipes.py).
    """
    return hashlib.sha256(row["context"].encode()).digest()[0] % 5 < 2


_SENTENCES = 200


def figure4(study: Study) -> Findings:
    """AttCAT's scores layer by layer, their sum, and the rollout, of one sentence; and the layers' size over many."""
    text = "i do not like this movie ."
    attcat = study.attribute("sst2", text, "attcat", **_INPUT)
    rollout = study.attribute("sst2", text, "attention_rollout")
    layers = _layers(attcat).numpy()
    rows = [*(f"L{k}" for k in range(len(layers))), "Rollout", "Sum"]
    parts = np.vstack([layers, rollout.scores.double().numpy(), attcat.scores.double().numpy()])
    tokens = tuple(f"{i} {t}" for i, t in enumerate(attcat.tokens))
    values: dict[tuple[str, str], Values | Number] = {
        (row, token): Number(float(parts[r, c])) for r, row in enumerate(rows) for c, token in enumerate(tokens)
    }
    panel = Panel(
        f"AttCAT of {text!r}", tuple(rows), tokens, values, better=dict.fromkeys(tokens, 0), kind="score", shape="text"
    )

    def halves(row: DataRow) -> list[float]:
        """Mean over the lower and the upper half of the layers of their largest score, by the largest of all."""
        largest = _layers(study.attribute("sst2", row["text"], "attcat", **_INPUT)).abs().numpy().max(1)
        half = len(largest) // 2
        return [float(part.mean() / largest.max()) for part in (largest[:half], largest[half:])]

    shares = study.each("attcat-layers", "sst2", study.rows("sst2/dev.jsonl", at_most=_SENTENCES), halves)
    names, column = ("lower half", "upper half"), "largest score"
    size = Panel(
        "Largest score of a layer, by the largest of all layers",
        names,
        (column,),
        {(name, column): shares[:, k] for k, name in enumerate(names)},
        kind="score",
        resamples=study.resamples,
    )
    answer = attcat.target.label if attcat.target is not None else None
    notes = (
        f"The sentence is the paper's; the model answers {answer!r}. Authors' indexing. One sentence "
        f"proves nothing about layers, so their size is measured on {len(shares)} sentences of SST-2.",
    )
    return Findings((panel, size), notes)


def figure4_claims(panels: Sequence[Panel]) -> list[Claim]:
    """The upper layers' scores are smaller."""
    size = panels[1]
    lower, upper = size.rows
    return [beats(size, "Scores become less impactful as the layer goes deeper", size.columns[0], lower, [upper])]


def _layers(attr: Attribution) -> Tensor:
    """(layer, token)."""
    assert attr.layers is not None
    return attr.layers.double()


def _slug(name: str) -> str:
    return "".join(c for c in name.split(" (")[0].lower() if c.isalnum())

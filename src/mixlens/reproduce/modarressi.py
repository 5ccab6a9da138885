"""Modarressi et al. 2022 (GlobEnc): Tables 1 and 2, Figures 3, 4 and 5."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import numpy as np
import torch

from mixlens.architectures import base_model
from mixlens.architectures.match import layer_modules, submodule
from mixlens.errors import Undefined
from mixlens.evaluation import Table
from mixlens.measure.ranks import correlation, rank_correlation
from mixlens.measure.statistics import permutation
from mixlens.reproduce.claims import STRONG, Claim, Pair, beats, least, nonzero
from mixlens.reproduce.findings import Findings, Method, Number, Panel, Values
from mixlens.reproduce.study import DataRow, Study

# The eight rows of Table 1: name in the paper -> method here. All are rolled out; none gets a residual added.
MAPS = {
    "W": "attention",
    "W_FIXEDRES": "attention_fixed_res",
    "W_RES": "attention_res",
    "N": "norm",
    "N_FIXEDRES": "norm_fixed_res",
    "N_RES": "norm_res",
    "N_RESLN": "norm_resln",
    "N_ENC (GlobEnc)": "globenc",
}
ROLLED: list[Method] = [(label, f"{method}+rollout", {}) for label, method in MAPS.items()]
_TABLE_1 = {
    "SST-2": (-0.11, -0.24, 0.19, 0.44, 0.48, 0.73, -0.21, 0.77),
    "SNLI (paper: MNLI)": (-0.06, -0.05, 0.27, 0.47, 0.55, 0.75, -0.06, 0.78),
    "HateXplain": (0.12, 0.13, 0.53, 0.43, 0.48, 0.66, 0.08, 0.72),
}
_SALIENCY = ("spearman:saliency",)


def table1(study: Study) -> Findings:
    """Spearman's rank correlation of rolled-out maps with saliency of the gold class, three data sets."""
    sets = {
        "SST-2": ("sst2", "classification", study.rows("sst2/dev.jsonl")),
        "SNLI (paper: MNLI)": ("inference", "pairs", study.rows("nli_snli/test.jsonl")),
        "HateXplain": ("hate", "classification", [_hate(r) for r in study.rows("hatexplain/val.jsonl", held_out)]),
    }
    values: dict[tuple[str, str], Values | Number] = {}
    for name, (role, task, rows) in sets.items():
        table = (
            _rolled(study)
            if role == "sst2"
            else study.evaluate(f"globenc-{role}", role, rows, ROLLED, _SALIENCY, task=task, target="label")
        )
        values |= {(label, name): table.values("spearman", label) for label in MAPS}
    paper = {(label, name): v for name, column in _TABLE_1.items() for label, v in zip(MAPS, column, strict=True)}
    panel = Panel("Spearman with saliency", tuple(MAPS), tuple(sets), values, paper, resamples=study.resamples)
    return Findings((panel,))


def table1_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Section 4.5: each component adds, the norms say more, one LayerNorm alone takes away."""
    (panel,) = panels
    orders = (
        ("N_ENC is the highest of all", "N_ENC (GlobEnc)", None, 1),
        ("N_RESLN suddenly drops behind N_RES: LN1 alone deteriorates the scores", "N_RES", ("N_RESLN",), STRONG),
        ("Norms say more than weights, by a significant gap: N over W", "N", ("W",), STRONG),
        ("The right mixing ratio makes a huge gap: W_RES over W_FIXEDRES", "W_RES", ("W_FIXEDRES",), STRONG),
        ("A fixed residual is better than none: N_FIXEDRES over N, on all sets", "N_FIXEDRES", ("N",), 1),
        ("N_RES is the highest without LayerNorm", "N_RES", ("W", "W_FIXEDRES", "W_RES", "N", "N_FIXEDRES"), 1),
    )
    return [
        beats(panel, f"{text} ({name})", name, best, others, times)
        for text, best, others, times in orders
        for name in panel.columns
    ]


def table2(study: Study) -> Findings:
    """Individual and rolled-out maps of single layers against saliency (SST-2)."""
    chosen = ("N", "N_RES", "N_ENC (GlobEnc)")
    methods = [entry for entry in ROLLED if entry[0] in chosen]
    individual = study.evaluate(
        "globenc-each", "sst2", study.rows("sst2/dev.jsonl"), methods, _SALIENCY, target="label", layers="each"
    )
    published = {
        "N": ((-0.50, 0.28, 0.40, 0.41), (-0.50, 0.44, 0.44, 0.44)),
        "N_RES": ((-0.48, 0.29, 0.41, 0.41), (-0.48, 0.70, 0.73, 0.73)),
        "N_ENC (GlobEnc)": ((-0.47, 0.29, 0.41, 0.41), (-0.47, 0.74, 0.77, 0.78)),
    }
    values: dict[tuple[str, str], Values | Number] = {}
    paper: dict[tuple[str, str], float] = {}
    columns: list[str] = []
    for which, (table, title) in enumerate(((individual, "individual"), (_rolled(study), "rollout"))):
        count = 1 + max(row.layer for row in table if row.layer is not None)
        at = {"first": 0, "middle": count // 2 - 1, "last": count - 1}
        names = [f"{title} L{layer + 1}" for layer in at.values()] + [f"{title} MAX"]
        columns += names
        for label in chosen:
            by_layer = [table.values("spearman", label, layer) for layer in range(count)]
            best = int(np.argmax([np.nanmean(v) for v in by_layer]))
            for name, layer in zip(names, [*at.values(), best], strict=True):
                values[label, name] = by_layer[layer]
            paper |= {(label, n): v for n, v in zip(names, published[label][which], strict=True)}
    panel = Panel("Spearman with saliency, by layer", chosen, tuple(columns), values, paper, resamples=study.resamples)
    turned: dict[tuple[str, str], Values | Number] = {
        (label, form): values[label, f"{form} MAX"] for label in chosen for form in ("individual", "rollout")
    }
    both = Panel(
        "Individual against rolled out, the best layer of each",
        tuple(f"{label}, {form}" for label in chosen for form in ("individual", "rollout")),
        ("MAX",),
        {(f"{label}, {form}", "MAX"): v for (label, form), v in turned.items()},
        resamples=study.resamples,
    )
    note = "The paper's layers are 1, 6 and 12 of 12; ours the first, the middle and the last of the model's."
    return Findings((panel, both), (note, "The best layer (MAX) is chosen on the texts that it is compared on."))


def table2_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Rollout against single layers."""
    both = panels[1]
    labels = [row.removesuffix(", rollout") for row in both.rows if row.endswith(", rollout")]
    text = "Rollout correlates more than any single layer"
    return [beats(both, f"{text} ({m})", "MAX", f"{m}, rollout", [f"{m}, individual"]) for m in labels]


def _rolled(study: Study) -> Table:
    """All eight on SST-2, rolled out to each layer: what Table 1, Table 2 and Figure 3 read."""
    rows = study.rows("sst2/dev.jsonl")
    return study.evaluate("globenc-sst2", "sst2", rows, ROLLED, _SALIENCY, target="label", layers="upto")


def figure3(study: Study) -> Findings:
    """The correlation of rolled-out maps with saliency, layer by layer, with 99 % intervals (SST-2)."""
    table = _rolled(study)
    count = 1 + max(row.layer for row in table if row.layer is not None)
    layers = tuple(str(layer + 1) for layer in range(count))
    values = {(m, k): table.values("spearman", m, int(k) - 1) for m in MAPS for k in layers}
    panel = Panel(
        "Spearman with saliency of maps rolled out to a layer",
        tuple(MAPS),
        layers,
        values,
        shape="lines",
        level=0.99,
        resamples=study.resamples,
    )
    return Findings((panel,), ('The paper claims both "in almost every layer".',))


def figure3_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Layer by layer: N_ENC the highest, norms over weights."""
    (panel,) = panels
    highest = [
        beats(panel, f"N_ENC has the highest correlation in layer {k}", k, "N_ENC (GlobEnc)") for k in panel.columns
    ]
    norms = [
        Claim(
            f"Norms correlate more than weights in layer {k}: N over W, N_RES over W_RES",
            tuple(Pair(panel.title, k, a, b, least(panel, k)) for a, b in (("N", "W"), ("N_RES", "W_RES"))),
        )
        for k in panel.columns
    ]
    return highest + norms


def figure4(study: Study) -> Findings:
    """Correlation of single layers' maps with HTA x input, row by row (SST-2)."""
    rows = study.rows("sst2/dev.jsonl", at_most=min(256, study.costly or 256))
    compared = {"N_RES": "norm_res", "N_RESLN": "norm_resln", "N_ENC": "globenc"}
    statistics = {"Pearson": correlation, "Spearman": rank_correlation}

    def correlations(row: DataRow) -> list[float]:
        """Mean over a map's rows, of every layer by every method by every statistic."""
        maps = {m: study.mixing("sst2", row["text"], m).scores.double().numpy() for m in compared.values()}
        references = study.mixing("sst2", row["text"], "hta_x_input").scores.double().numpy()
        return [
            float(np.nanmean([statistic(a, b) for a, b in zip(maps[method][k], references[k], strict=True)]))
            for statistic in statistics.values()
            for method in compared.values()
            for k in range(len(references))
        ]

    rho = study.each("globenc-hta", "sst2", rows, correlations)
    rho = rho.reshape(len(rows), len(statistics), len(compared), -1)
    layers = tuple(str(layer + 1) for layer in range(rho.shape[-1]))
    panels = [
        Panel(
            f"{kind} of a layer's map rows with HTA x input",
            tuple(compared),
            layers,
            {(m, k): rho[:, s, c, int(k) - 1] for c, m in enumerate(compared) for k in layers},
            shape="lines",
            level=0.99,
            resamples=study.resamples,
        )
        for s, kind in enumerate(statistics)
    ]
    notes = (
        "The paper says Pearson in Figure 4, the authors' code computes Spearman: both are shown. Their HTA is of a "
        "BERT that was not tuned; ours is of the model that is explained.",
    )
    return Findings(tuple(panels), notes)


def figure4_claims(panels: Sequence[Panel]) -> list[Claim]:
    """N_RESLN against both others, by either correlation."""
    return [
        Claim(
            f"N_RESLN shows considerably less association with HTA than N_RES and N_ENC: layer {k} "
            f"({panel.title.split()[0]})",
            tuple(Pair(panel.title, k, m, "N_RESLN", least(panel, k, STRONG)) for m in ("N_RES", "N_ENC")),
        )
        for panel in panels
        for k in panel.columns
    ]


def figure5(study: Study) -> Findings:
    """Outlier weights of the two LayerNorms, and how they correlate, layer by layer."""
    lens = study.lens("sst2")
    norms = [path for path in (lens.spec.attend.norm, lens.spec.feed.norm) if path is not None]
    if len(norms) != 2:
        raise Undefined(f"globenc-figure5 compares the two norms of a layer, {lens.name} has {len(norms)}")
    values: dict[tuple[str, str], Values | Number] = {}
    layers: list[str] = []
    for at, layer in enumerate(layer_modules(base_model(lens.model), lens.spec), 1):
        first, second = (
            torch.as_tensor(submodule(layer, path).weight, dtype=torch.float64, device="cpu").detach().numpy()
            for path in norms
        )
        out = _outliers(first) | _outliers(second)
        layers.append(str(at))
        values["all dimensions", str(at)] = Number(correlation(first, second), n=len(first))
        if out.sum() > 2:
            test = permutation(first[out], second[out])
            floor = 1 / factorial(test.n) if test.exact else 0.0
            values["outliers", str(at)] = Number(test.value, n=test.n, p=test.p, floor=floor)
        values["outliers, how many", str(at)] = Number(float(out.sum()), n=len(first))
    panel = Panel(
        "Pearson of the weights of LN1 and LN2",
        ("outliers", "all dimensions"),
        tuple(layers),
        values,
        better=dict.fromkeys(layers, 0),
        kind="correlation of a few",
        shape="lines",
    )
    counts = Panel(
        "Outlier dimensions (3 sigma from the mean in LN1 or LN2)",
        ("outliers, how many",),
        tuple(layers),
        values,
        better={k: 0 for k in layers},
    )
    notes = (
        "p is that of all orders of the outlier dimensions (permutation); a layer with fewer than three has no "
        "correlation. One model, so no interval. MiniLM's norms are not BERT's.",
    )
    return Findings((panel, counts), notes)


def figure5_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Opposite outliers, layer by layer."""
    panel = panels[0]
    text = "Outlier weights of the two norms are the opposite of each other, with a large negative correlation: layer"
    return [nonzero(panel, f"{text} {k}", k, "outliers", -1) for k in panel.columns]


def _outliers(weights: Values) -> np.ndarray:
    """Dimensions at least 3 sigma from the mean (Kovaleva 2021)."""
    return np.abs(weights - weights.mean()) >= 3 * weights.std()


def held_out(_: dict[str, object], number: int) -> bool:
    """Every fifth post of HateXplain's file, which the embedded model was not trained on (experiments/recipes.py)."""
    return number % 5 == 4


def _hate(row: dict[str, object]) -> dict[str, object]:
    tokens = row["tokens"]
    assert isinstance(tokens, list)
    return {"id": row["id"], "text": " ".join(tokens), "label": int(row["label"] != "normal")}

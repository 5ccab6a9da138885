"""Ferrando et al. 2022 (ALTI): Table 2, Figures 3, 6, 7, and the maps of Figures 8 to 10."""

from __future__ import annotations

from collections.abc import Sequence

from mixlens.evaluation import Row
from mixlens.reproduce.claims import STRONG, Claim, beats, near_zero, pairs
from mixlens.reproduce.findings import Findings, Method, Number, Panel, Values, number_of
from mixlens.reproduce.study import Study
from mixlens.target import Target

ROLLOUTS = {"Attn Rollout": "attention_rollout", "Norm Rollout": "norm_rollout", "ALTI": "alti"}
_METHODS: list[Method] = [(label, method, {}) for label, method in ROLLOUTS.items()]
_SAMPLES = 500  # the paper's
_ABSOLUTE = {"absolute": True}


def table2(study: Study) -> Findings:
    """Spearman with grad_l2 of the probability (SST-2), and with blank-out at [MASK] (SVA)."""
    sst2 = study.evaluate(
        "alti-sst2",
        "sst2",
        study.rows("sst2/dev.jsonl", at_most=_SAMPLES),
        _METHODS,
        ("spearman:grad_l2",),
        target=Target(of="prob"),
    )
    sva = study.evaluate(
        "alti-sva",
        "masked_verb",
        study.rows("sva/test.jsonl", at_most=_SAMPLES),
        _METHODS,
        ("spearman:blank_out",),
        task="agreement",
        options={"blank_out": {"replace": "mask", "absolute": True}},
    )
    columns = {"SST-2, grad_l2": sst2, "SVA, blank-out": sva}
    values: dict[tuple[str, str], Values | Number] = {
        (label, name): table.values("spearman", label) for name, table in columns.items() for label in ROLLOUTS
    }
    published = {"SST-2, grad_l2": (-0.03, 0.41, 0.55), "SVA, blank-out": (-0.02, 0.19, 0.40)}
    paper = {(m, c): v for c, column in published.items() for m, v in zip(ROLLOUTS, column, strict=True)}
    panel = Panel(
        "Spearman with a reference", tuple(ROLLOUTS), tuple(columns), values, paper, resamples=study.resamples
    )
    notes = (
        "The paper's column is BERT's. SVA: the paper's masked LM is not tuned, ours is tuned to prefer the right "
        "number, so its probability is that among target and foil; the verb is blanked out along with the rest.",
    )
    return Findings((panel,), notes)


def table2_claims(panels: Sequence[Panel]) -> list[Claim]:
    """ALTI against the other rollouts."""
    (panel,) = panels
    sst2, sva = panel.columns
    return [
        beats(panel, f"ALTI outperforms the other rollouts by a large margin ({sst2})", sst2, "ALTI", times=STRONG),
        beats(panel, f"ALTI outperforms the other rollouts ({sva})", sva, "ALTI"),
    ]


def figure3(study: Study) -> Findings:
    """Anisotropy: mean cosine of vectors of different texts, of LN1's outputs and of the transformed vectors."""
    rows = study.rows("sst2/dev.jsonl", at_most=_SAMPLES)
    vectors = {"outputs y_i": "outputs", "transformed T_i(x_j)": "transformed"}
    measures = [(label, "anisotropy", {"of": of}) for label, of in vectors.items()]
    table = study.evaluate("alti-anisotropy", "sst2", rows, (), measures)
    values: dict[tuple[str, str], Values | Number] = {
        (label, _layer(row)): number_of(row) for label in vectors for row in table.layers(label)
    }
    layers = tuple(_layer(row) for row in table.layers(measures[0][0]))
    panel = Panel(
        "Mean cosine of vectors of different texts",
        tuple(vectors),
        layers,
        values,
        better=dict.fromkeys(layers, -1),
        kind="cosine",
        shape="lines",
    )
    return Findings((panel,), ("Exact over all pairs of different texts, not over a sample of pairs.",))


def _layer(row: Row) -> str:
    assert row.layer is not None
    return str(row.layer + 1)


_NEAR = 0.1  # mean cosine that is still "almost isotropic"


def figure3_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Transformed vectors against the block's outputs, and by themselves in the first layer."""
    (panel,) = panels
    outputs, inner = panel.rows
    text = "Transformed vectors are less anisotropic than the block's outputs, in every layer"
    first = panel.columns[0]
    isotropic = "In the first layer the transformed vectors are almost isotropic"
    return [
        Claim(text, pairs(panel, panel.columns, inner, [outputs])),
        near_zero(panel, isotropic, first, inner, _NEAR),
    ]


def figure6(study: Study) -> Findings:
    """Rank / n of [CLS], [SEP], comma and full stop (1: the most important token)."""
    rows = study.rows("sst2/dev.jsonl")
    of = {"[CLS]": "cls", "[SEP]": "sep", ",": "comma", ".": "full_stop"}
    methods: list[Method] = [*_METHODS, ("grad_l2", "grad_l2", {})]
    labels = {f"rank of {token}": token for token in of}
    table = study.evaluate(
        "alti-special",
        "sst2",
        rows,
        methods,
        [(label, "special_rank", {"of": of[token]}) for label, token in labels.items()],
        target=Target(of="prob"),
    )
    names = tuple(label for label, _, _ in methods)
    values = {(m, token): table.values(label, m) for m in names for label, token in labels.items()}
    panel = Panel(
        "Rank of special tokens (1: the highest score)",
        names,
        tuple(of),
        values,
        better={t: -1 for t in of},
        kind="rank",
        resamples=study.resamples,
    )
    return Findings((panel,), ("Texts without the token are left out of its column.",))


def figure6_claims(panels: Sequence[Panel]) -> list[Claim]:
    """ALTI's ranks of the special tokens against the others'."""
    (panel,) = panels
    return [beats(panel, f"ALTI ranks {t} lower than the others do", t, "ALTI") for t in panel.columns]


def figure7(study: Study) -> Findings:
    """Spearman of two models' scores on texts that both label alike."""
    methods: list[Method] = [
        ("ALTI", "alti", {}),
        ("grad_l2", "grad_l2", {}),
        ("grad x input", "grad_x_input", _ABSOLUTE),
        ("IG", "integrated_gradients", {"absolute": True, "tolerance": float("inf")}),
    ]
    table = study.split(
        "alti-consistency",
        "sst2",
        study.rows("sst2/dev.jsonl", at_most=_SAMPLES),
        methods,
        ("consistency",),
        ("IG",),
        second=study.lens("sst2_cut"),
        target=Target(of="prob"),
    )
    names = tuple(label for label, _, _ in methods)
    values = {(m, "consistency"): table.values("consistency", m) for m in names}
    panel = Panel("Consistency of two models", names, ("consistency",), values, resamples=study.resamples)
    note = "The paper's two models are BERT and DistilBERT, ours the tuned MiniLM and its tuned three-layer cut."
    return Findings((panel,), (note, *table.notes))


def figure7_claims(panels: Sequence[Panel]) -> list[Claim]:
    """ALTI first, grad_l2 second."""
    (panel,) = panels
    return [
        beats(panel, "ALTI is the most consistent", "consistency", "ALTI"),
        beats(panel, "grad_l2 follows behind", "consistency", "grad_l2", ["grad x input", "IG"]),
    ]


def figures8to10(study: Study) -> Findings:
    """Maps of all layers together by the three rollouts, for three sentences."""
    texts = (
        "a clever blend of fact and fiction .",  # the paper's Figure 5
        "the plot is thin , but the actors are a joy to watch .",
        "nothing in this film is worth two hours of your life .",
    )
    pictures = {}
    for number, text in enumerate(texts, 1):
        for label, method in ROLLOUTS.items():
            mixing = {"attention_rollout": "attention", "norm_rollout": "norm_resln"}.get(method, method)
            maps = study.mixing("sst2", text, mixing)
            maps = maps.normalized() if method == "norm_rollout" else maps
            pictures[f"{label}, sentence {number}"] = maps.rollout().layer(-1).plot
    return Findings((), ("Rows are the last layer's tokens, columns the input.",), pictures, texts)

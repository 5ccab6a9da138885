"""The table of measures: one line a measure."""

from __future__ import annotations

from math import inf

from mixlens.errors import UnknownMethod, did_you_mean
from mixlens.measure import answers, confidence, corpus, cue, perturb, probing, ranks, rationale, soft, sources
from mixlens.measure.measure import Ablation, Corpus, Curve, Measure

_ONE, _SIGNED, _ANY = (0.0, 1.0), (-1.0, 1.0), (0.0, inf)
_QIANG, _MOHEBBI = "Qiang 2022", "Mohebbi 2023"
_FERRANDO, _ERASER = "Ferrando 2022", "DeYoung 2020"
_ZHAO = "Zhao & Aletras 2023"
_PAN, _COHEN = "Pan 2026 (FlashTrace)", "Cohen-Wang 2024 (ContextCite)"


def _table(*measures: Measure) -> dict[str, Measure]:
    return {m.name: m for m in measures}


MEASURES: dict[str, Measure] = _table(
    Measure(
        "spearman",
        "rank correlation with a reference method",
        "Abnar & Zuidema 2020; Modarressi 2022",
        ranks.spearman,
        "reference",
        True,
        _SIGNED,
    ),
    Measure(
        "kendall_tau",
        "Kendall's tau-b with a reference method",
        "Kendall 1945",
        ranks.kendall_tau,
        "reference",
        True,
        _SIGNED,
    ),
    Measure(
        "pearson", "Pearson's r with a reference method", "Pearson 1895", ranks.pearson, "reference", True, _SIGNED
    ),
    Curve(
        "aopc",
        "mean fall of the answer's probability as the highest tokens go",
        f"{_QIANG}, section 4",
        perturb.aopc,
        "curve",
        True,
        _SIGNED,
    ),
    Curve(
        "log_odds",
        "mean log ratio of the answer's probability as the highest tokens go",
        f"{_QIANG}, section 4",
        perturb.log_odds,
        "curve",
        False,
        (-inf, inf),
        replacement="pad",
    ),
    Curve(
        "comprehensiveness",
        "fall of the answer's probability without the highest tokens",
        _ERASER,
        perturb.comprehensiveness,
        "curve",
        True,
        _SIGNED,
        levels="eraser",
    ),
    Curve(
        "sufficiency",
        "fall of the answer's probability with the highest tokens alone",
        _ERASER,
        perturb.sufficiency,
        "curve",
        False,
        _SIGNED,
        levels="eraser",
        kept=True,
    ),
    Measure(
        "kendall_confidence",
        "Kendall's tau between the explanations of two classes",
        f"{_QIANG}, section 4",
        confidence.kendall_confidence,
        "classes",
        False,
        _SIGNED,
    ),
    Measure(
        "precision_at_k",
        "how many of the K highest tokens belong to the answer",
        f"{_QIANG}, section 4",
        rationale.precision_at_k,
        "answer",
        True,
        _ANY,
    ),
    Measure("cue_dot", "the cue's part of all scores", f"{_MOHEBBI}, Eq. 11", cue.cue_dot, "cue", True, _ONE),
    Measure(
        "cue_ap",
        "average precision of the cue in the order of the scores",
        f"{_MOHEBBI}, Eq. 12",
        cue.cue_ap,
        "cue",
        True,
        _ONE,
    ),
    Measure(
        "probes_needed",
        "tokens that are no cue and stand before the last that is",
        f"{_MOHEBBI}, Figure A2",
        cue.probes_needed,
        "cue",
        False,
        _ANY,
    ),
    Measure(
        "special_rank",
        "rank / n of a special token, 1 = highest score",
        f"{_FERRANDO}, Figure 6",
        ranks.special_rank,
        "special",
        None,
        _ONE,
    ),
    Measure(
        "consistency",
        "rank correlation with the same method in a second model",
        f"{_FERRANDO}, Figure 7",
        ranks.consistency,
        "second",
        True,
        _SIGNED,
    ),
    Measure(
        "token_f1",
        "F1 of the highest tokens against a human rationale",
        _ERASER,
        rationale.token_f1,
        "rationale",
        True,
        _ONE,
    ),
    Measure(
        "auprc",
        "area under precision and recall of a human rationale",
        _ERASER,
        rationale.auprc,
        "rationale",
        True,
        _ONE,
    ),
    Measure(
        "iou",
        "intersection over union of the highest tokens and a human rationale",
        _ERASER,
        rationale.iou,
        "rationale",
        True,
        _ONE,
    ),
    Measure(
        "recovery",
        "the part of the known source among the highest tenth of the prompt",
        _PAN,
        sources.recovery,
        "gold",
        True,
        _ONE,
    ),
    Measure("mrr", "1 / rank of the known source in the prompt", "Voorhees 1999", sources.mrr, "gold", True, _ONE),
    Measure("gold_mass", "the known source's part of all positive scores", _PAN, sources.gold_mass, "gold", True, _ONE),
    Curve(
        "rise",
        "area under what is left of the answer as the highest tokens go",
        f"Petsiuk 2018; {_PAN}",
        answers.rise,
        "curve",
        False,
        _ONE,
        replacement="pad",
        levels=answers.STEPS,
    ),
    Curve(
        "mas",
        "rise, with a penalty where the scores' sizes say otherwise",
        f"Walker 2024; {_PAN}",
        answers.mas,
        "curve",
        False,
        _ONE,
        replacement="pad",
        levels=answers.STEPS,
    ),
    Ablation(
        "top_k_drop",
        "fall of the answer's ln p without the k highest units",
        _COHEN,
        answers.top_k_drop,
        "curve",
        True,
        (-inf, inf),
        sets=answers.top_units,
    ),
    Ablation(
        "lds",
        "rank correlation of random ablations with what the scores foretell",
        _COHEN,
        answers.lds,
        "curve",
        True,
        _SIGNED,
        sets=answers.random_units,
    ),
    Curve(
        "disrupt",
        "area of the answer's probability as the highest tokens' embeddings are set to zero",
        "DePass 2025",
        soft.zeroed_area,
        "curve",
        False,
        _ONE,
        replacement="zero",
    ),
    Curve(
        "recover",
        "area of the answer's probability as all but the highest tokens' embeddings are set to zero",
        "DePass 2025",
        soft.zeroed_area,
        "curve",
        True,
        _ONE,
        replacement="zero",
        kept=True,
    ),
    Ablation(
        "soft_ns",
        "how near the output stays with the prompt thinned out where scores are low",
        _ZHAO,
        soft.soft_ns,
        "curve",
        True,
        _ONE,
        replacement="soft",
        sets=soft.sufficient,
    ),
    Ablation(
        "soft_nc",
        "how far the output moves with the prompt thinned out where scores are high",
        _ZHAO,
        soft.soft_nc,
        "curve",
        True,
        _ONE,
        replacement="soft",
        sets=soft.comprehensive,
    ),
    Corpus(
        "mdl_compression",
        "how much shorter a probe makes the code of a label",
        "Voita & Titov 2020; Mohebbi 2023",
        probing.mdl_compression,
        "corpus",
        None,
        _ANY,
        collects="labelled",
        spread=probing.mdl_spread,
    ),
    Corpus(
        "anisotropy",
        "mean cosine of two random vectors of different texts",
        f"{_FERRANDO}, Figure 3",
        corpus.anisotropy,
        "corpus",
        None,
        _SIGNED,
        collects="sums",
        spread=corpus.anisotropy_spread,
    ),
)


def measure(name: str) -> Measure:
    """The measure of this name. Raises UnknownMethod."""
    if name not in MEASURES:
        raise UnknownMethod(f"no measure {name!r}{did_you_mean(name, MEASURES)}")
    return MEASURES[name]

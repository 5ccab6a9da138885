"""Which method finds the source of an answer, where it is known since it was planted? No paper's table: ours."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import mixlens
from mixlens.attribute.names import method
from mixlens.errors import MixlensError, UnknownMethod
from mixlens.measure.ranks import rank_correlation
from mixlens.measure.statistics import paired
from mixlens.reproduce.findings import Findings, Method, Number, Panel, Values
from mixlens.reproduce.study import Study
from mixlens.results import Trace
from mixlens.tasks import Example
from mixlens.tasks.planted import planted

if TYPE_CHECKING:
    from typing import TypeGuard

ROLE = "smollm2"
ITEMS, SEEDS = 200, 3

TASKS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "needle": ("needle", {"keys": 3}),
    "needle in filler": ("needle", {"keys": 3, "filler": 6}),
    "variables": ("variables", {"steps": 2, "chains": 2}),
    "indirect object": ("ioi", {}),
    "agreement": ("agreement", {"attractors": 1}),
}
# Groups of methods, each with a run of its own: a method that is put into one leaves the others' results as they are.
GROUPS: dict[str, tuple[Method, ...]] = {
    "maps": (
        ("random", "random", {}),
        ("attention_rollout", "attention_rollout", {}),
        ("globenc", "globenc", {}),
        ("alti", "alti", {}),
        ("alti, no receptive field", "alti", {"receptive_field": False}),
        ("value_zeroing", "value_zeroing", {}),
        ("ifr", "ifr", {}),
        ("ifr+sum", "ifr+sum", {}),
    ),
    "logits": (
        ("head_logit", "head_logit", {}),
        ("head_logit, signed", "head_logit", {"signed": True}),
        ("alti_logit", "alti_logit", {}),
        ("alti_logit, ffn", "alti_logit", {"ffn": True}),
    ),
    "gradients": (
        ("saliency", "saliency", {}),
        ("grad_l2", "grad_l2", {}),
        ("grad_x_input", "grad_x_input", {}),
        ("attcat", "attcat", {}),
    ),
    "path_logit": (("path_logit", "path_logit", {}),),
    "frozen": (("cp_lrp", "cp_lrp", {}), ("attn_lrp", "attn_lrp", {}), ("gim", "gim", {})),
}
MEASURES = ("mrr", ("mrr, first token left out", "mrr", {"first": False}), "recovery", "gold_mass")
TITLES = {
    "mrr": "Mean reciprocal rank of the source",
    "mrr, first token left out": "Mean reciprocal rank, the first token left out",
    "recovery": "Part of the source among the highest tenth of the prompt",
    "gold_mass": "Part of the positive scores on the source",
}
BESIDE = "What it costs, and how much of it is position"
LENGTH, TEXTS = 48, 6  # of the prompts whose scores are compared with each other


def table(study: Study) -> Findings:
    """Every task with every method, what each costs, and how much of its scores is position."""
    there = {group: methods for group, methods in GROUPS.items() if all(_known(name) for _, name, _ in methods)}
    items, seeds = study.limit or ITEMS, study.seeds or SEEDS
    values: dict[str, dict[tuple[str, str], Values | Number]] = {title: {} for title in TITLES}
    wrong: list[str] = []
    for task, (kind, options) in TASKS.items():
        found: dict[tuple[str, str], list[Values]] = {}
        off = 0
        for seed in range(seeds):
            examples = planted(kind, items, seed=seed, **options)
            for group, methods in there.items():
                part = f"known-source-{task.replace(' ', '-')}-{seed}-{group}"
                ran = study.evaluate(part, ROLE, examples, methods, MEASURES)
                for label, _, _ in methods:
                    for measure in TITLES:
                        found.setdefault((measure, label), []).append(ran.values(measure, label))
            off += len(ran.wrong)
        for (measure, label), parts in found.items():
            values[measure][label, task] = np.concatenate(parts)
        study.counted[task] = items * seeds
        wrong.append(f"{task}: the model answers {off} of {items * seeds} otherwise; these are left out")
    rows = tuple(label for methods in there.values() for label, _, _ in methods)
    panels = [Panel(title, rows, tuple(TASKS), values[m], kind="rank") for m, title in TITLES.items()]
    panels.insert(1, _best(panels[0]))
    panels.append(_beside(study, [one for methods in there.values() for one in methods]))
    absent = [name for methods in GROUPS.values() for _, name, _ in methods if not _known(name)]
    return Findings(tuple(panels), (*wrong, *([f"Not there, so not measured: {', '.join(absent)}"] if absent else ())))


def _known(name: str) -> bool:
    try:
        method(name)
    except UnknownMethod:
        return False
    return True


def _best(panel: Panel) -> Panel:
    """The best of each task less each other method, by the paired bootstrap."""
    out: dict[tuple[str, str], Values | Number] = {}
    names = []
    for column in panel.columns:
        cells = {row: panel.values.get((row, column)) for row in panel.rows}
        means = {row: float(np.nanmean(v)) for row, v in cells.items() if _defined(v)}
        if not means:
            continue
        best = max(means, key=lambda row: means[row])
        names.append(f"{column}: {best}")
        for row in panel.rows:
            a, b = panel.values[best, column], panel.values[row, column]
            if row != best and isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
                told = paired(a, b, level=panel.level, resamples=panel.resamples)
                out[row, column] = Number(told.difference, told.low, told.high, int(np.isfinite(a - b).sum()))
    note = f"The best is, by its mean: {'; '.join(names)}. An interval above 0: the best is better than that method."
    return Panel("The best of each task less each other (reciprocal ranks)", panel.rows, panel.columns, out, note=note)


def _defined(value: Values | Number | None) -> TypeGuard[Values]:
    return isinstance(value, np.ndarray) and bool(np.isfinite(value).any())


def _beside(study: Study, methods: Sequence[Method]) -> Panel:
    """Seconds beside those of random scores (two passes), and Spearman's rho of scores of different texts."""
    texts = planted("needle", TEXTS, seed=99, keys=4, filler=8)
    columns = ("time of two passes", "rho of two texts", "rho with position")
    out: dict[tuple[str, str], Values | Number] = {}
    lens = study.lens(ROLE)
    for label, name, options in methods:

        def numbers(row: Mapping[str, Any], name: str = name, options: Mapping[str, Any] = options) -> list[float]:
            return _of_method(lens, texts, name, options)

        slug = "".join(c if c.isalnum() else "-" for c in label)
        rows = [{"method": name, "options": dict(options)}]
        (found,) = study.each(f"known-source-beside-{slug}", ROLE, rows, numbers)
        out |= {(label, column): Number(float(value)) for column, value in zip(columns, found, strict=True)}
    note = (
        f"Time as a multiple of what random scores take (two passes), the median of {TEXTS} texts of {LENGTH} "
        "tokens. rho: Spearman's, the mean over pairs of these texts, and of scores with the token's place."
    )
    return Panel(BESIDE, tuple(label for label, _, _ in methods), columns, out, note=note, kind="rank correlation")


def _of_method(lens: mixlens.Lens, texts: Sequence[Example], name: str, options: Mapping[str, Any]) -> list[float]:
    scores, seconds = [], []
    for example in texts:
        ids = list(lens.subject.read(example.prompt).require()[0].ids[:LENGTH])
        prompt, answer = ids[:-1], ids[-1:]
        begun = time.perf_counter()
        lens.trace(prompt, answer, "random")
        middle = time.perf_counter()
        try:
            trace = lens.trace(prompt, answer, name, **options)
        except MixlensError:
            return [float("nan")] * 3
        assert isinstance(trace, Trace)
        seconds.append((time.perf_counter() - middle) / (middle - begun))
        scores.append(trace.scores[0, : len(prompt)].double().numpy())
    between = [rank_correlation(a, b) for a, b in combinations(scores, 2)]
    places = np.arange(len(scores[0]), dtype=np.float64)
    return [
        float(np.median(seconds)),
        float(np.mean(between)),
        float(np.mean([rank_correlation(s, places) for s in scores])),
    ]

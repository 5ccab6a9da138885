"""Which method finds the source of an answer, where it is known since it was planted? No paper's table: ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import mixlens
from mixlens.capture.text import text_of
from mixlens.errors import MixlensError
from mixlens.evaluation.given import Question, Scorer
from mixlens.measure.ranks import rank_correlation
from mixlens.measure.statistics import paired
from mixlens.reproduce.findings import Findings, Method, Number, Panel, Values
from mixlens.reproduce.peers import PEERS
from mixlens.reproduce.study import Study
from mixlens.tasks import Example
from mixlens.tasks.planted import planted

if TYPE_CHECKING:
    from typing import TypeGuard

ROLE = "smollm2"
ITEMS, SEEDS = 67, 3  # of each seed: two hundred a task
TRIES = 5  # times as many prompts are asked, at most, for so many that the model answers as it should
COSTLY = "costly"  # methods of a pass a token: on `Study.costly` of the items where there is such a number,
LONG = ("needle in filler",)  # and on none of these tasks, whose prompts are of a hundred tokens

TASKS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "needle": ("needle", {"keys": 3}),
    "needle in filler": ("needle", {"keys": 3, "filler": 6}),
    "variables": ("variables", {"steps": 2, "chains": 2}),
    "indirect object": ("ioi", {}),
    "agreement": ("agreement", {"attractors": 1}),
}
Line = tuple[str, str | Scorer, Mapping[str, Any]]  # label, method or another package, options
# Groups of methods, each with a run of its own: a method that is put into one leaves the others' results as they are.
GROUPS: dict[str, tuple[Method, ...]] = {
    "maps": (
        ("random", "random", {}),
        ("attention_rollout", "attention_rollout", {"receptive_field": False}),
        ("attention_rollout, receptive field", "attention_rollout", {"receptive_field": True}),
        ("globenc", "globenc", {"receptive_field": False}),
        ("globenc, receptive field", "globenc", {"receptive_field": True}),
        ("alti", "alti", {"receptive_field": False}),
        ("alti, receptive field", "alti", {"receptive_field": True}),
        ("ifr", "ifr", {}),
    ),
    "answers": (
        ("head_logit", "head_logit", {}),
        ("head_logit, signed", "head_logit", {"signed": True}),
        (
            "path_logit, terms alone, itself left out",
            "path_logit",
            {"average": None, "clamp": "head", "itself": False},
        ),
        ("alti_logit", "alti_logit", {}),
        ("alti_logit, ffn", "alti_logit", {"ffn": True}),
        ("saliency", "saliency", {}),
        ("grad_l2", "grad_l2", {}),
        ("grad_x_input", "grad_x_input", {}),
        ("attcat", "attcat", {}),
        ("cp_lrp", "cp_lrp", {}),
        ("attn_lrp", "attn_lrp", {}),
        ("gim", "gim", {}),
        ("gim, l2", "gim", {"reduce": "l2"}),
    ),
    "paths": (("path_logit", "path_logit", {}),),
    "terms": (("path_logit, terms alone", "path_logit", {"average": None, "clamp": "head"}),),
    "routes": (("flashtrace", "flashtrace", {}),),
    COSTLY: (
        ("value_zeroing", "value_zeroing", {"receptive_field": False}),
        ("value_zeroing, receptive field", "value_zeroing", {"receptive_field": True}),
        ("blank_out", "blank_out", {}),
        ("context_cite", "context_cite", {}),
    ),
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
    """Every task with every method, what each costs, and how much of its scores is position.

    A seed at a time, so that a run that was killed has whole seeds to look at.
    """
    study.generated = True
    items, seeds = study.limit or ITEMS, study.seeds or SEEDS
    parts: dict[tuple[str, str, str], list[Values]] = {}
    prompts, kept = dict.fromkeys(TASKS, 0), dict.fromkeys(TASKS, 0)
    for seed in range(seeds):
        for task in TASKS:
            examples, tried = _answered(study, task, seed, items)
            prompts[task] += tried
            kept[task] += len(examples)
            for key, numbers in _measured(study, task, seed, examples).items():
                parts.setdefault((*key, task), []).append(numbers)
    study.counted.update(kept)
    groups = _groups()
    every = [line for _, methods in groups.values() for line in methods]
    rows = tuple(label for label, _, _ in every)
    panels = []
    for measure, title in TITLES.items():
        values = {(label, task): np.concatenate(parts[measure, label, task]) for label in rows for task in TASKS}
        panels.append(Panel(title, rows, tuple(TASKS), values, kind="rank"))
    panels.insert(1, _best(panels[0]))
    panels.append(_beside(study, every))
    notes = [f"{task}: {kept[task]} of {prompts[task]} prompts, which the model answers so" for task in TASKS]
    costly = [label for dear, methods in groups.values() if dear for label, _, _ in methods]
    if study.costly is not None and costly:
        names = ", ".join(costly)
        notes.append(f"{names}: on the first {study.costly} items of a task and seed, of {', '.join(LONG)} on none")
    there = [peer.label for peer in PEERS if peer.installed]
    if there:
        versus = [peer.label for peer in PEERS if peer.installed and peer.versus]
        notes.append(
            f"{', '.join(there)}: the packages' own code by their defaults; held against the foil where there is one: "
            f"{', '.join(versus) or 'none'}, the others explain the answer alone"
        )
    absent = sorted({peer.package for peer in PEERS if not peer.installed})
    if absent:
        notes.append(f"not installed, so without a row: {', '.join(absent)} (the extra `peers`)")
    return Findings(tuple(panels), tuple(notes))


def _groups() -> dict[str, tuple[bool, tuple[Line, ...]]]:
    """name -> (whether costly, its methods): our own, and a group for each method of a package that is installed."""
    out: dict[str, tuple[bool, tuple[Line, ...]]] = {
        name: (name == COSTLY, methods) for name, methods in GROUPS.items()
    }
    there = [peer for peer in PEERS if peer.installed]
    return out | {_slug(peer.label): (peer.costly, ((peer.label, peer, {}),)) for peer in there}


def _slug(label: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in label)


def _answered(study: Study, task: str, seed: int, items: int) -> tuple[list[Example], int]:
    """The first items that the model answers as the source says, and how many were asked for that."""
    kind, options = TASKS[task]
    kept: list[Example] = []
    for part in range(TRIES):
        made = planted(kind, items * (part + 1), seed=seed, **options)[items * part :]
        ran = study.evaluate(f"{_part(task, seed)}-answered-{part}", ROLE, made, ["random"], ["mrr"])
        kept += [example for example in made if example.id not in set(ran.wrong)]
        if len(kept) >= items:
            break
    return kept[:items], items * (part + 1)


def _measured(study: Study, task: str, seed: int, examples: Sequence[Example]) -> dict[tuple[str, str], Values]:
    """(measure, method) -> (item,), NaN for items that a costly method was spared."""
    out: dict[tuple[str, str], Values] = {}
    for group, (costly, methods) in _groups().items():
        if not examples or (costly and task in LONG):
            out |= {(measure, label): np.full(len(examples), np.nan) for label, _, _ in methods for measure in TITLES}
            continue
        few = study.costly if costly else None
        part = f"{_part(task, seed)}-{group}" + ("" if few is None else f"-{few}")
        ran = study.evaluate(part, ROLE, examples[:few], methods, MEASURES)
        for label, _, _ in methods:
            for measure in TITLES:
                values = ran.values(measure, label)
                out[measure, label] = np.pad(values, (0, len(examples) - len(values)), constant_values=np.nan)
    return out


def _part(task: str, seed: int) -> str:
    return f"known-source-{task.replace(' ', '-')}-{seed}"


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


def _beside(study: Study, methods: Sequence[Line]) -> Panel:
    """Seconds beside those of random scores (two passes), and Spearman's rho of scores of different texts."""
    texts = planted("needle", TEXTS, seed=99, keys=4, filler=8)
    columns = ("time of two passes", "rho of two texts", "rho with position")
    out: dict[tuple[str, str], Values | Number] = {}
    lens = study.lens(ROLE)
    for label, name, options in methods:

        def numbers(
            row: Mapping[str, Any], name: str | Scorer = name, options: Mapping[str, Any] = options
        ) -> list[float]:
            return _of_method(lens, texts, name, options)

        rows = [{"method": name if isinstance(name, str) else label, "options": dict(options)}]
        (gauges,) = study.each(f"known-source-beside-{_slug(label)}", ROLE, rows, numbers)
        out |= {(label, column): Number(float(value)) for column, value in zip(columns, gauges, strict=True)}
    note = (
        f"Time as a multiple of what random scores take (two passes), the median of {TEXTS} texts of {LENGTH} "
        "tokens. rho: Spearman's, the mean over pairs of these texts, and of scores with the token's place."
    )
    return Panel(BESIDE, tuple(label for label, _, _ in methods), columns, out, note=note, kind="rank correlation")


def _of_method(
    lens: mixlens.Lens, texts: Sequence[Example], name: str | Scorer, options: Mapping[str, Any]
) -> list[float]:
    scores, seconds = [], []
    for example in texts:
        ids = list(text_of(lens.subject.read(example.prompt).require()[0]).ids[:LENGTH])
        prompt, answer = ids[:-1], ids[-1:]
        ask: Callable[[], Any] = (
            partial(_traced, lens, prompt, answer, name, options)
            if isinstance(name, str)
            else partial(name, _question(lens, example, prompt, answer))
        )
        begun = time.perf_counter()
        lens.trace(prompt, answer, "random")
        middle = time.perf_counter()
        try:
            prompt_scores = np.asarray(ask(), dtype=np.float64)
        except MixlensError:
            return [float("nan")] * 3
        seconds.append((time.perf_counter() - middle) / (middle - begun))
        scores.append(prompt_scores)
    between = [rank_correlation(a, b) for a, b in combinations(scores, 2)]
    places = np.arange(len(scores[0]), dtype=np.float64)
    return [
        float(np.median(seconds)),
        float(np.mean(between)),
        float(np.mean([rank_correlation(s, places) for s in scores])),
    ]


def _traced(
    lens: mixlens.Lens, prompt: Sequence[int], answer: Sequence[int], name: str, options: Mapping[str, Any]
) -> Any:
    trace: Any = lens.trace(prompt, answer, name, **options)
    return trace.scores[0, : len(prompt)].double()


def _question(lens: mixlens.Lens, example: Example, prompt: Sequence[int], answer: Sequence[int]) -> Question:
    """The same question for another package, which takes the prompt as a text."""
    text = lens.tokenizer.decode(list(prompt), clean_up_tokenization_spaces=False)
    example = Example(example.id, prompt=text, answer=list(answer))
    return Question(lens, example, lens.subject.read(text).require()[0], answer=tuple(answer))

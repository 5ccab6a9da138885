"""Read the numbers of a printed reproduction back into a record, where its run's own numbers are no longer there.

    python experiments/reproduction_printed.py PAGE.md NAME... --out docs/reproduction

PAGE.md is a page of `mixlens reproduce` as it was printed before records were kept: cells to two decimals, paired
differences to three, the latter only for pairs that decided a claim. The paper's claims are those of today's code; the
record says of each where its p comes from. How far rounding may be off is counted against the claim.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from mixlens.reproduce import REPRODUCTIONS, Number, Panel
from mixlens.reproduce.record import record

PRINTED = "numbers: read back from print, so p is from intervals"
_CELL = re.compile(r"(-?[\d.]+)(?: ± ([\d.]+))?(?: \[(-?[\d.]+), (-?[\d.]+)\])?(?: \(paper (-?[\d.]+)\))?")
_DIFFERENCE = re.compile(r"([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\] over ([^;]+)")
_AGAINST = re.compile(r"([^;]+?): (?:reversed|undecided), ([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\]")
_EXACT = re.compile(r"(.+): rho ([+-][\d.]+), exact permutation p = ([\d.]+) over (\d+) layers")
# What was printed of a claim -> the method that was held against others, in what column, of what panel.
_CLAIMS = (
    (r"Value Zeroing aligns best .*, layer (?P<column>\d) \((?P<panel>.+)\)", "Value Zeroing"),
    (r"Raw attention is worse than random scores, layer (?P<column>\d) \((?P<panel>.+)\)", "Rand"),
    (r"Gradients highlight .* Value Zeroing: (?P<best>\w+) \((?P<panel>.+)\)", ""),
    (r"Value Zeroing is the most faithful", "Value Zeroing"),
    (r"AttCAT is the (?:best method|most confident) \((?P<column>.+)\)", "AttCAT"),
    (r"AttCAT as the authors' code computes it is the best \((?P<column>.+)\)", "AttCAT, input indexing"),
    (r"ALTI is the most consistent", "ALTI"),
    (r"grad_l2 follows behind", "grad_l2"),
    (r"(?P<best>Rollout|Flow) correlates better than raw attention, layer (?P<column>\d)", ""),
    (r"N_RESLN shows considerably less association with HTA: layer (?P<column>\d) \((?P<panel>\w+)\)", "N_RES N_ENC"),
    (r"In the last layer flow is at least rollout's equal", "Flow"),
)
_KINDS = {
    "Dot product": ("share of the scores", 1),
    "Average precision": ("average precision", 1),
    "Probes needed": ("tokens", -1),
    "Kendall confidence": ("rank correlation", -1),
    "Spearman of compression": ("correlation of a few", 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("names", nargs="+", choices=list(REPRODUCTIONS))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    for part in re.split(r"^(?=## `)", args.page.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name = part[4 : part.index("`", 4)]
        if name in args.names:
            read(name, part).save(args.out / f"{name}.json")


def read(name: str, part: str):
    """The record of one printed reproduction."""
    lines = part.splitlines()
    panels, said = [], {}
    notes = [line[2:] for line in lines if line.startswith("* ")]
    for block in re.split(r"^### ", part, flags=re.M)[1:]:
        title, rows = block.splitlines()[0], [row for row in block.split("\n**")[0].splitlines() if row.startswith("|")]
        panels.append(_panel(title, [_split(row) for row in rows], notes))
        said[title] = tuple(line[2:] for line in block.splitlines() if line.startswith("- "))
    claims = [_split(line) for line in lines if line.startswith("| ") and len(_split(line)) == 3]
    panels = _with_differences(panels, [c for c in claims if c[1] in ("holds", "reversed", "undecided")])
    known = REPRODUCTIONS[name]
    facts = [line[2:] for line in lines[: next(i for i, one in enumerate(lines) if one.startswith("###"))]][4:]
    pictures = re.findall(r"!\[(.*?)\]\(reproduction/(.*?)\)", part)
    facts = [*(f for f in facts if f), PRINTED]
    made = record(name, known.cite, known.title, facts, panels, known.claims(panels), pictures, notes)
    mark = "(One by one, not corrected for their number.)"
    tables = tuple(
        replace(table, orderings=(), said=(*said[table.title], mark) if said[table.title] else ())
        for table in made.tables
    )
    return replace(made, tables=tables)


def _split(row: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def _panel(title: str, rows: list[list[str]], notes: list[str]) -> Panel:
    columns, values, paper = tuple(rows[0][1:]), {}, {}
    exact = {m[1]: Number(float(m[2]), n=int(m[4]), p=float(m[3])) for n in notes if (m := _EXACT.fullmatch(n))}
    for row, *cells in rows[2:]:
        for column, cell in zip(columns, cells, strict=True):
            if not (found := _CELL.fullmatch(cell)):
                continue
            mean, std, low, high, theirs = (math.nan if v is None else float(v) for v in found.groups())
            values[row, column] = Number(mean, low, high, std=std)
            if row in exact:
                values[row, column] = replace(exact[row], floor=1 / math.factorial(exact[row].n))
            if not math.isnan(theirs):
                paper[row, column] = theirs
    kind, sign = next((v for k, v in _KINDS.items() if title.startswith(k)), ("rank correlation", 1))
    kinds = {c: "probability" if c.endswith("AOPC") else "log odds" if c.endswith("LOdds") else kind for c in columns}
    better = {c: -1 if c.endswith("LOdds") else sign for c in columns}
    names = tuple(row[0] for row in rows[2:])
    return Panel(title, names, columns, values, paper, better, kinds, rounding=(0.005, 0.0005))


def _with_differences(panels: list[Panel], claims: list[list[str]]) -> list[Panel]:
    found: dict[str, dict[tuple[str, str, str], Number]] = {panel.title: {} for panel in panels}
    seen: Counter[str] = Counter()  # two lines of one text: the first is about one method, the second about the other
    for text, _, evidence in claims:
        for pattern, best in _CLAIMS:
            if not (match := re.fullmatch(pattern, text)):
                continue
            best = best.split()[seen[text] % len(best.split())] if " N_" in best else best
            seen[text] += 1
            facts = {"best": best, "panel": panels[0].title, "column": "", **match.groupdict()}
            panel = next(p for p in panels if p.title.startswith(facts["panel"]))
            column = facts["column"] or panel.columns[-1 if "last layer" in text else 0]
            for mean, low, high, row in _DIFFERENCE.findall(evidence):
                found[panel.title][column, facts["best"], row.strip()] = Number(float(mean), float(low), float(high))
            for row, mean, low, high in _AGAINST.findall(evidence):
                found[panel.title][column, facts["best"], row.strip()] = Number(float(mean), float(low), float(high))
    return [replace(panel, differences=found[panel.title]) for panel in panels]


if __name__ == "__main__":
    main()

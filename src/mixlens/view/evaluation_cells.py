"""The cells of an evaluation's table: what stands in each, which are the best, which are as good as chance."""

from __future__ import annotations

from dataclasses import dataclass

from mixlens.view import evaluation_figures
from mixlens.view.evaluation_figures import MODEL
from mixlens.view.kit import spelling
from mixlens.view.kit.drawn import Row, Table

BEST, CHANCE = "*", "~"


@dataclass(frozen=True)
class Cell:
    """A measure of a method. `best`: none is distinguishably better; `chance`: it is not so from random scores."""

    row: Row
    best: bool
    chance: bool

    @property
    def text(self) -> str:
        """Mean and interval."""
        if self.row.mean is None:
            return "-"
        if self.row.low is None or self.row.high is None:
            return spelling.number(self.row.mean)
        low, high = spelling.number(self.row.low), spelling.number(self.row.high)
        return f"{spelling.number(self.row.mean)} [{low}, {high}]"

    @property
    def signs(self) -> str:
        """What stands for bold and grey where there are no styles."""
        return BEST * self.best + CHANCE * self.chance


def grid(table: Table) -> list[list[Cell]]:
    """A row a method, a cell a measure: the whole model, no single layers. Nothing is marked where all would be."""
    cells = marked(table)
    return [[Cell(c.row, False, False) for c in line] for line in cells] if undecided(cells) else cells


def marked(table: Table) -> list[list[Cell]]:
    """The cells of `grid`, marked whatever the marks would say."""
    best = {m: evaluation_figures.leaders(table, m) for m in table.measures}
    return [
        [_cell(table, table.row(measure, method), method in best[measure]) for measure in table.measures]
        for method in table.methods
    ]


def undecided(cells: list[list[Cell]]) -> bool:
    """Whether several methods are all as good as the best and all as good as chance: the marks would say nothing."""
    return len(cells) > 1 and bool(cells[0]) and all(c.best and c.chance for line in cells for c in line)


def _cell(table: Table, row: Row, best: bool = False) -> Cell:
    return Cell(row, best, row.p_null is not None and row.p_null > 1 - table.level)


@dataclass(frozen=True)
class Depth:
    """A measure by layer: a column a method that has layers, a line a layer; None where a method has none there."""

    measure: str
    methods: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Cell | None, ...]], ...]


def depths(table: Table) -> list[Depth]:
    """The measures of methods layer by layer, as `layers="each"` or `"upto"` asked; none without. Nothing is best."""
    out = []
    for measure in table.measures:
        cells = {
            (r.method, r.layer): _cell(table, r)
            for r in table.rows
            if r.layer is not None and table.is_of(r, measure) and r.method != MODEL
        }
        methods = tuple(m for m in table.methods if any(m == method for method, _ in cells))
        layers = sorted({layer for _, layer in cells if layer is not None})
        lines = tuple((layer_name(k), tuple(cells.get((m, k)) for m in methods)) for k in layers)
        if lines:
            out.append(Depth(measure, methods, lines))
    return out


def by_layer(table: Table) -> list[tuple[str, list[str]]]:
    """The measures of the model's vectors: a line a layer, counted from 1, with what stands for each measure."""
    lines = {m: {r.layer: Cell(r, False, False).text for r in table.layers(m)} for m in table.corpora}
    layers = sorted({layer for column in lines.values() for layer in column if layer is not None})
    return [(layer_name(layer), [lines[m].get(layer, "-") for m in table.corpora]) for layer in layers]


def layer_name(layer: int) -> str:
    """As people count: from 1."""
    return "embeddings" if layer < 0 else str(layer + 1)

"""How well the number of the cue is known from [MASK]'s vector, layer by layer (Mohebbi 2023, section 6)."""

from __future__ import annotations

import numpy as np

import mixlens
from mixlens.evaluation import Row, Table
from mixlens.evaluation.layers import labelled_vectors
from mixlens.measure.probing import Code, online_code
from mixlens.reproduce.blimp import held_out
from mixlens.reproduce.findings import Number, Panel, Values, number_of
from mixlens.reproduce.study import Study

MEASURE = "mdl_compression"
PACKAGED = "packaged encoder"  # the role of the encoder that the embedded model was tuned from


def compression(study: Study) -> tuple[Panel, dict[str, Code]]:
    """Compression (bits of a uniform code over bits of the online code) of the tuned and the packaged encoder.

    Beside it the tuned one's code of each layer.
    """
    encoders = {"tuned": "agreement"}
    if study.lens("agreement").name == "mixlens:agreement":  # of another model it is not known what it was tuned from
        study.add(PACKAGED, _packaged)
        encoders["packaged"] = PACKAGED
    tables = {name: _probed(study, f"vz-probes-{name}", role) for name, role in encoders.items()}
    values: dict[tuple[str, str], Values | Number] = {
        (name, _layer(row)): number_of(row) for name, table in tables.items() for row in table.layers(MEASURE)
    }
    layers = tuple(_layer(row) for row in tables["tuned"].layers(MEASURE))
    panel = Panel(
        "Compression of the number of the cue, from [MASK]'s vector",
        tuple(encoders),
        layers,
        values,
        better=dict.fromkeys(layers, 0),
        shape="lines",
    )
    vectors, labels = labelled_vectors(tables["tuned"], MEASURE)
    return panel, {k: online_code(np.array(vectors[at]), labels) for at, k in enumerate(layers)}


def _probed(study: Study, part: str, role: str) -> Table:
    labelled = mixlens.task("agreement", label="number")
    return study.evaluate(part, role, held_out(study), (), (MEASURE,), task=labelled)


def _packaged() -> mixlens.Lens:
    from mixlens.embedded import base_folder, build

    return mixlens.load(*build(base_folder(), (), task="masked"))


def _layer(row: Row) -> str:
    """0 for the embeddings' output."""
    assert row.layer is not None
    return str(row.layer + 1)

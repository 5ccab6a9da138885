"""How well the number of the cue is known from [MASK]'s vector, layer by layer (Mohebbi 2023, section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixlens.measure.probing import Code, interval, online_code
from mixlens.reproduce.blimp import held_out, masked
from mixlens.reproduce.findings import Number, Panel, Values
from mixlens.reproduce.study import Row, Study


def compression(study: Study) -> tuple[Panel, dict[str, Code]]:
    """Compression (bits of a uniform code over bits of the online code) of the tuned and the packaged encoder.

    Beside it the tuned one's code of each layer.
    """
    rows = held_out(study)
    labels = np.array([int(row["number"] == "plural") for row in rows])
    values: dict[tuple[str, str], Values | Number] = {}
    layers: tuple[str, ...] = ()
    codes: dict[str, Code] = {}
    lens = study.lens("agreement")
    encoders = {"tuned": lens.model.base_model}
    if lens.name == "mixlens:agreement":  # of another model it is not known what it was tuned from
        encoders["packaged"] = _packaged(study)
    for name, model in encoders.items():
        vectors = _mask_vectors(study, model, rows)
        layers = tuple(str(k) for k in range(vectors.shape[1]))
        for k in layers:
            code = online_code(vectors[:, int(k)], labels)
            values[name, k] = Number(code.compression, *interval(code, resamples=study.resamples), len(labels))
            if name == "tuned":
                codes[k] = code
    panel = Panel(
        "Compression of the number of the cue, from [MASK]'s vector",
        tuple(encoders),
        layers,
        values,
        better=dict.fromkeys(layers, 0),
        shape="lines",
    )
    return panel, codes


def _packaged(study: Study) -> Any:
    from mixlens.embedded import base_folder, build

    return build(base_folder(), (), task="masked")[0].bert.to(study.lens("agreement").model.device)


def _mask_vectors(study: Study, model: Any, rows: Sequence[Row]) -> np.ndarray:
    """(text, layer, dim): [MASK]'s hidden state after the embeddings (0) and after each layer."""
    import torch

    tokenizer = study.lens("agreement").tokenizer
    out = []
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([tokenizer(masked(row))["input_ids"]], dtype=torch.int64, device=model.device)
            at = ids[0].tolist().index(tokenizer.mask_token_id)
            hidden = model(input_ids=ids, output_hidden_states=True).hidden_states
            out.append(torch.stack([h[0, at] for h in hidden]).double().cpu().numpy())
    return np.stack(out)

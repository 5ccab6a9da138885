"""The layers by hand are the models' own: what the other oracles stand on."""

from __future__ import annotations

import numpy as np
import pytest

from models import exact, families
from oracles.layers import NAMES, Norm, Weights, by_hand


def final_norm(name: str, model) -> Norm | None:
    c, w = model.config, Weights(model, "")
    w.table = {f".{k}": t for k, t in w.table.items()}
    return {
        "bert": lambda: None,
        "gpt2": lambda: w.norm("ln_f", c.layer_norm_epsilon),
        "gpt_neox": lambda: w.norm("final_layer_norm", c.layer_norm_eps),
        "llama": lambda: w.rms("norm", c.rms_norm_eps),
        "gemma2": lambda: w.rms("norm", c.rms_norm_eps, 1.0),
        "granite": lambda: w.rms("norm", c.rms_norm_eps),
        "gpt_oss": lambda: w.rms("norm", c.rms_norm_eps),
        "modernbert": lambda: w.norm("final_norm", c.norm_eps),
    }[name]()


@pytest.mark.parametrize("name", NAMES)
def test_layers_by_hand_give_the_model_s_output(name):
    model = families.model(name, attention=exact.ATTENTION)
    real = exact.forward(model, families.text(13)).last_hidden_state[0].numpy()
    norm = final_norm(name, model)
    got = by_hand(name)[-1].y
    np.testing.assert_allclose(got if norm is None else norm(got), real, atol=1e-11, rtol=0)
    assert len(by_hand(name)) == model.config.num_hidden_layers

"""Stage 1: which module plays which part. One small declarative spec a family; `SPECS` by `config.model_type`."""

from mixlens.architectures.match import base_model, layer_modules, spec_for, submodule, unwrap
from mixlens.architectures.sizes import (
    accepts,
    ffn_width,
    fuses_attention,
    layer_count,
    position_limit,
    shares_layers,
    takes_positions,
)
from mixlens.architectures.spec import Attend, Feed, Network, Spec
from mixlens.architectures.table import SPECS, variants

__all__ = [
    "SPECS",
    "Attend",
    "Feed",
    "Network",
    "Spec",
    "accepts",
    "base_model",
    "ffn_width",
    "fuses_attention",
    "layer_count",
    "layer_modules",
    "position_limit",
    "shares_layers",
    "spec_for",
    "submodule",
    "takes_positions",
    "unwrap",
    "variants",
]

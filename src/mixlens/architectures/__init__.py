"""Stage 1: which module plays which part. One small declarative spec a family; `SPECS` by `config.model_type`."""

from mixlens.architectures.families import SPECS, variants
from mixlens.architectures.match import base_model, layer_modules, position_limit, spec_for, submodule, unwrap
from mixlens.architectures.spec import FFN, Spec

__all__ = [
    "FFN",
    "SPECS",
    "Spec",
    "base_model",
    "layer_modules",
    "position_limit",
    "spec_for",
    "submodule",
    "unwrap",
    "variants",
]

"""Stage 1: which module plays which part. One small declarative spec a family; `SPECS` by `config.model_type`.

Called, it lists the model types of the installed transformers: `mixlens.architectures()` (see `mixlens.survey`).

Examples:
    >>> [known["status"] for known in mixlens.architectures(["bert"])]
    ['hand-written']
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from mixlens.architectures.match import (
    base_class,
    base_model,
    decoder_of,
    encoder_of,
    has_spec,
    layer_modules,
    spec_for,
    submodule,
    unwrap,
)
from mixlens.architectures.sizes import (
    TEXT,
    accepts,
    by_length,
    fed,
    ffn_width,
    fuses_attention,
    layer_count,
    position_limit,
    shares_layers,
    takes_positions,
    two_towers,
)
from mixlens.architectures.spec import Attend, Feed, Network, Spec
from mixlens.architectures.table import SPECS, variants
from mixlens.architectures.written import written

__all__ = [
    "SPECS",
    "TEXT",
    "Attend",
    "Feed",
    "Network",
    "Spec",
    "accepts",
    "base_class",
    "base_model",
    "by_length",
    "decoder_of",
    "encoder_of",
    "fed",
    "ffn_width",
    "fuses_attention",
    "has_spec",
    "layer_count",
    "layer_modules",
    "position_limit",
    "shares_layers",
    "spec_for",
    "submodule",
    "takes_positions",
    "two_towers",
    "unwrap",
    "variants",
    "written",
]


class _Called(ModuleType):
    """A package whose name is a verb of `mixlens` too: importing it would hide a function of that name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("mixlens.survey").architectures(*args, **kwargs)


sys.modules[__name__].__class__ = _Called

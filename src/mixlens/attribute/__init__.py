"""Stage 8: maps or gradients, a target and its read-out row -> one score a token. `ATTRIBUTIONS` is the list."""

from mixlens.attribute.chance import Random
from mixlens.attribute.gradient import Gradient
from mixlens.attribute.jacobian import Jacobian
from mixlens.attribute.method import Method
from mixlens.attribute.names import method
from mixlens.attribute.occlusion import Occlusion
from mixlens.attribute.path import Path
from mixlens.attribute.preset import Preset
from mixlens.attribute.relevance import Relevance
from mixlens.attribute.table import ATTRIBUTIONS

__all__ = [
    "ATTRIBUTIONS",
    "Gradient",
    "Jacobian",
    "Method",
    "Occlusion",
    "Path",
    "Preset",
    "Random",
    "Relevance",
    "method",
]

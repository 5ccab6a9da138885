"""Stage 6: maps or gradients, a target and its read-out row -> one score a token. `ATTRIBUTIONS` is the list."""

from mixlens.attribute.kinds import Gradient, Jacobian, Method, Occlusion, Path, Preset, Random, Relevance
from mixlens.attribute.methods import ATTRIBUTIONS
from mixlens.attribute.names import method
from mixlens.attribute.target import Target

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
    "Target",
    "method",
]

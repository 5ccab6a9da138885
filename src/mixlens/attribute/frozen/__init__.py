"""Gradients of a model of which parts are held fixed: norms' scales, attention weights, gates."""

from mixlens.attribute.frozen.family import Frozen
from mixlens.attribute.frozen.paths import PathLogit
from mixlens.attribute.frozen.rules import RULES, Rules

__all__ = ["RULES", "Frozen", "PathLogit", "Rules"]

"""Stage 6: maps, a target and its read-out row -> one score a token. `ATTRIBUTIONS` is the list of presets."""

from mixlens.attribute.presets import ATTRIBUTIONS, Preset, preset
from mixlens.attribute.target import Target

__all__ = ["ATTRIBUTIONS", "Preset", "Target", "preset"]

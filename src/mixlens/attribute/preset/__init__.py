"""Presets: a mixing method, how its layers are put together, and the read-out row."""

from mixlens.attribute.preset.family import Preset

__all__ = ["Preset"]

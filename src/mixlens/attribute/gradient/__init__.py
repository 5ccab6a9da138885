"""Gradients of the explained number: at hidden states and at attention weights."""

from mixlens.attribute.gradient.family import Gradient

__all__ = ["Gradient"]

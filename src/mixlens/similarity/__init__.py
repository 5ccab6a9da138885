"""Which words of two texts made their vectors alike: products of a vector a token."""

from mixlens.similarity.calls import similarity
from mixlens.similarity.table import SIMILARITIES

__all__ = ["SIMILARITIES", "similarity"]

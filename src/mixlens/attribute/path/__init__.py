"""From a baseline to the input: integrated gradients and DeepLIFT."""

from mixlens.attribute.path.family import Path

__all__ = ["Path"]

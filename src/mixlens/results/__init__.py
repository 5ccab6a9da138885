"""What comes out: `LayerMaps` and `Attribution`, frozen, with all that is needed to know where they come from."""

from mixlens.results.attribution import Attribution, Word
from mixlens.results.base import PathLike, read
from mixlens.results.maps import LayerMaps

__all__ = ["Attribution", "LayerMaps", "PathLike", "Word", "read"]

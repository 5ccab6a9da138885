"""What comes out: `LayerMaps`, `Attribution`, `Comparison`: frozen, with all that says where they come from."""

from mixlens.files import PathLike
from mixlens.results.attribution import Attribution, Word
from mixlens.results.collection import Results
from mixlens.results.comparison import Comparison
from mixlens.results.kinds import read
from mixlens.results.maps import LayerMaps

__all__ = ["Attribution", "Comparison", "LayerMaps", "PathLike", "Results", "Word", "read"]

"""What comes out: frozen results, each with where it comes from."""

from mixlens.files import PathLike
from mixlens.results.attribution import Attribution, Word
from mixlens.results.collection import Results
from mixlens.results.comparison import Comparison
from mixlens.results.explained import Explained
from mixlens.results.kinds import read
from mixlens.results.maps import LayerMaps
from mixlens.results.similarity import Similarity
from mixlens.results.trace import Trace
from mixlens.results.unit_trace import UnitTrace

__all__ = [
    "Attribution",
    "Comparison",
    "Explained",
    "LayerMaps",
    "PathLike",
    "Results",
    "Similarity",
    "Trace",
    "UnitTrace",
    "Word",
    "read",
]

"""Over a data set: measures of methods in a run that survives being killed, and the table of what came out."""

from mixlens.evaluation.evaluate import evaluate
from mixlens.evaluation.result import Row, Table

__all__ = ["Row", "Table", "evaluate"]

"""Whether to believe an explanation: measures as pure functions, and what may be said of their values.

`MEASURES` is the list. A measure looks at a `Case` (one text, one method) or, for `Corpus`, at arrays of many texts;
`statistics` makes intervals, comparisons and rankings of the values; `faithfulness` is one text's own number.
"""

from mixlens.measure.case import Case
from mixlens.measure.measure import Ablation, Corpus, Curve, Measure
from mixlens.measure.table import MEASURES, measure

__all__ = ["MEASURES", "Ablation", "Case", "Corpus", "Curve", "Measure", "measure"]

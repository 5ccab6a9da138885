"""mixlens: which tokens a Transformer mixes, and which of them made it decide.

>>> import mixlens
>>> lens = mixlens.load()  # the embedded sentiment classifier  # doctest: +SKIP
>>> attr = lens.attribute("a deep and meaningful film.", method="alti")
>>> max(attr.words(), key=lambda word: word.score).text
'meaningful'

Nothing heavy is imported before it is used: torch and transformers come with the first `load`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mixlens.version import __version__

if TYPE_CHECKING:
    from mixlens.architectures import Attend as Attend
    from mixlens.architectures import Feed as Feed
    from mixlens.architectures import Network as Network
    from mixlens.architectures import Spec as Spec
    from mixlens.capture.given import Words as Words
    from mixlens.dataset.explain import explain_data as explain_data
    from mixlens.dataset.plan import plan_explain_data as plan_explain_data
    from mixlens.evaluation.evaluate import evaluate as evaluate
    from mixlens.evaluation.given import Question as Question
    from mixlens.evaluation.plan import plan_evaluate as plan_evaluate
    from mixlens.evaluation.reading import read as read
    from mixlens.evaluation.result import Table as Table
    from mixlens.inventory import measures as measures
    from mixlens.inventory import methods as methods
    from mixlens.lens import Lens as Lens
    from mixlens.lens import load as load
    from mixlens.papers import cite as cite
    from mixlens.results import Attribution as Attribution
    from mixlens.results import Comparison as Comparison
    from mixlens.results import Explained as Explained
    from mixlens.results import LayerMaps as LayerMaps
    from mixlens.results import Similarity as Similarity
    from mixlens.results import Trace as Trace
    from mixlens.target import Target as Target
    from mixlens.tasks.example import Example as Example
    from mixlens.tasks.planted import planted as planted
    from mixlens.tasks.table import task as task
    from mixlens.view.notebook import explore as explore

_HOME = {
    "load": "lens",
    "Spec": "architectures",
    "Attend": "architectures",
    "Feed": "architectures",
    "Network": "architectures",
    "Lens": "lens",
    "LayerMaps": "results",
    "Attribution": "results",
    "read": "evaluation.reading",
    "Similarity": "results",
    "Trace": "results",
    "Target": "target",
    "Comparison": "results",
    "Explained": "results",
    "explain_data": "dataset.explain",
    "Words": "capture.given",
    "methods": "inventory",
    "measures": "inventory",
    "cite": "papers",
    "evaluate": "evaluation.evaluate",
    "Question": "evaluation.given",
    "plan_evaluate": "evaluation.plan",
    "plan_explain_data": "dataset.plan",
    "Table": "evaluation.result",
    "Example": "tasks.example",
    "task": "tasks.table",
    "planted": "tasks.planted",
    "explore": "view.notebook",
}
__all__ = [
    "Attend",
    "Attribution",
    "Comparison",
    "Example",
    "Explained",
    "Feed",
    "LayerMaps",
    "Lens",
    "Network",
    "Question",
    "Similarity",
    "Spec",
    "Table",
    "Target",
    "Trace",
    "Words",
    "__version__",
    "architectures",
    "cite",
    "errors",
    "evaluate",
    "explain_data",
    "explore",
    "load",
    "measures",
    "methods",
    "plan_evaluate",
    "plan_explain_data",
    "planted",
    "read",
    "task",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("mixlens.errors")
    if name == "architectures":  # a package, which is called
        return import_module("mixlens.architectures")
    if name in _HOME:
        return getattr(import_module(f"mixlens.{_HOME[name]}"), name)
    raise AttributeError(f"module 'mixlens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

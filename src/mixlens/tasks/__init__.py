"""Stage 7: labelled texts -> `Example`s. `TASKS` says what a row means, `source` where rows come from."""

from mixlens.tasks.data import SAMPLE, Source, digest, example, source
from mixlens.tasks.example import Chars, Example, token_mask
from mixlens.tasks.table import TASKS, Task, task

__all__ = ["SAMPLE", "TASKS", "Chars", "Example", "Source", "Task", "digest", "example", "source", "task", "token_mask"]

"""Stage 9: a whole answer of a language model, token by token, back to the prompt."""

from mixlens.trace.plan import plan_trace
from mixlens.trace.several import trace

__all__ = ["plan_trace", "trace"]

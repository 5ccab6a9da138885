"""Stage 9: a whole answer of a language model, token by token, back to the prompt."""

from mixlens.trace.calls import trace
from mixlens.trace.several import traces

__all__ = ["trace", "traces"]

"""Several answer tokens as one: what a span of them took, and through which of the answer's own tokens."""

from mixlens.attribute.span.family import SpanRoutes

__all__ = ["SpanRoutes"]

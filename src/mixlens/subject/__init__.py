"""Stage 5: what is explained, a model that has passed its self-check; it reads texts and passes them through."""

from mixlens.subject.subject import Subject, examined

__all__ = ["Subject", "examined"]

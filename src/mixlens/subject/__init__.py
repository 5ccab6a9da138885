"""Stage 5: what is explained, a model that has passed its self-check; it reads texts and passes them through."""

from mixlens.subject.compared import TwoTowers
from mixlens.subject.examined import examined
from mixlens.subject.stacks import EncoderDecoder
from mixlens.subject.subject import Subject

__all__ = ["EncoderDecoder", "Subject", "TwoTowers", "examined"]

"""A model's class becomes the spec of its layers, found in the numbers of one pass: no name is looked at."""

from mixlens.infer.found import Origin, infer, known, refuse
from mixlens.infer.reasons import Misfit
from mixlens.infer.spec import spec_of
from mixlens.infer.twin import Twin, require_one_stream, twin_of, whole_of

__all__ = [
    "Misfit",
    "Origin",
    "Twin",
    "infer",
    "known",
    "refuse",
    "require_one_stream",
    "spec_of",
    "twin_of",
    "whole_of",
]

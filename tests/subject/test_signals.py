"""Kinds of input that are no text: each has what it takes."""

import pytest

from mixlens.capture.fed import SIGNALS, kind
from mixlens.capture.signal import Signal
from mixlens.storage import _STREAMS
from mixlens.subject.signals import READERS


def test_every_kind_is_read_and_kept():
    assert READERS.keys() == SIGNALS.keys()
    assert {signal.stream for signal in SIGNALS.values()} <= {*_STREAMS.values()}


@pytest.mark.parametrize("name", SIGNALS)
def test_a_kind_says_what_it_is(name):
    stream = SIGNALS[name].stream
    assert issubclass(stream, Signal) and stream.fillers and stream.axes
    assert kind(name) == stream.noun != "text"

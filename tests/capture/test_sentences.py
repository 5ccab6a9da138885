"""Sentences by rule: where a point ends one, in prose, lists, code, quotes and other scripts."""

# ruff: noqa: RUF001

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens.capture.sentences import sentences

CASES = [
    # abbreviations, initials, numbers
    "Dr. Smith went to the U.S. in 1999. | He liked it.",
    "He lives in the U.S. | The rest is history.",
    "The U.S. Government agreed. | So did Mr. O'Neil Jr. and Ms. Ray.",
    "Pi is 3.14. | It is, e.g. in maths, irrational (i.e. no fraction). | Yes.",
    "J. R. R. Tolkien wrote it. | George W. Bush did not.",
    "See Fig. 3 and No. 5. | No. | It is not.",
    "They left at 5 p.m. | He came at 6 a.m. Monday.",
    "She has a Ph.D. in maths. | He works at Acme Inc. in Ohio.",
    "Apples, pears, etc. are fruit. | Plums, etc. | The end.",
    "Smith et al. (2020) say so. | It holds vs. Jones.",
    "Es kostet z.B. 3,50 Euro bzw. mehr. | Das ist gut.",
    "Vitamin C. | The end.",
    "It cost $3.50. | 12 were sold.",
    "Version 2.0 is out! | Get it at https://x.com/?q=a.b. | Now.",
    # ends of several marks, quotes, brackets
    "Really?! | Yes... maybe. | Well… | Then.",
    "\u201cStop!\u201d he said. | \u201cGo.\u201d | She went.",
    'He said "no." | Then he left.',
    "(He left. | She stayed.) | Then.",
    "It is so.[1] | Then it was.[2][3] | Yes.",
    "**Bold.** | Then plain.",
    # without capitals, without an end
    "hello. how are you? | fine".replace("hello. ", "hello. | "),
    "no trailing space",
    # other scripts
    "你好。 | 他说：“走吧！” | 我们走了。 | 为什么？",
    "今日は晴れ。 | 明日は？ | 「分からない！」 | はい",
    "价格是３．１４元。 | 好。",
    "用GPT-4.5吗？ | 是的.",
    "هل هذا صحيح؟ | نعم. | انتهى",
    "यह है। | वह है।",
    "Ναι; όχι. | Τέλος.",
]


@pytest.mark.parametrize("case", CASES)
def test_where_sentences_end(case):
    parts = case.split(" | ")
    joined = "".join(p + ("" if p[-1] in "。！？」" else " ") for p in parts).strip()
    for text in {" ".join(parts), joined}:
        assert [text[a:b] for a, b in sentences(text)] == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1. Open the door. It is red.\n2. Close it.", ["1. Open the door.", "It is red.", "2. Close it."]),
        ("Steps: 1. Open. 2. Close.", ["Steps: 1. Open.", "2. Close."]),
        ("To buy:\n- milk\n- 2 eggs\n* tea", ["To buy:", "- milk", "- 2 eggs", "* tea"]),
        ("a) one\nb) two", ["a) one", "b) two"]),
        ("# Title\nText here.", ["# Title", "Text here."]),
        (
            "A line\nB line\nwrapped here\n\nPara two.",
            ["A line", "B line\nwrapped here", "Para two."],
        ),
        ("It was,\nAs said, late.", ["It was,\nAs said, late."]),
        ("One.\r\nTwo.\r\n\r\nThree", ["One.", "Two.", "Three"]),
        ("Use os.path.join. Then `a. B` runs.", ["Use os.path.join.", "Then `a. B` runs."]),
        ("So:\n```\nx = 1. Then\ny = f.G\n```\nDone. Yes.", ["So:", "```\nx = 1. Then\ny = f.G\n```", "Done.", "Yes."]),
        ("Open ```\nx. Y", ["Open", "```\nx. Y"]),
        ("def f(x):\n    return x.y\n\nprint(1.5)", ["def f(x):\n    return x.y", "print(1.5)"]),
        ("", []),
        (" \n ", []),
        ("...", ["..."]),
        (".", ["."]),
    ],
)
def test_lines_lists_and_code(text, parts):
    assert [text[a:b] for a, b in sentences(text)] == parts


@given(st.text(alphabet='aB.!?…。؟ \n`1)-"”(', max_size=60))
def test_nothing_but_blanks_is_left_out(text):
    spans = sentences(text)
    covered = set()
    last = 0
    for start, end in spans:
        assert last <= start < end
        assert text[start:end] == text[start:end].strip()
        covered |= set(range(start, end))
        last = end
    assert {i for i, c in enumerate(text) if not c.isspace()} <= covered

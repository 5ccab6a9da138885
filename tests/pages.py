"""A page as a browser reads it: its tags and text, what stands there without the script, the script's data."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np

_SCRIPTS = re.compile(r"<script[^>]*>.*?</script>", re.DOTALL)


class Page(HTMLParser):
    """The tags, the attributes and the text; not the text of scripts and style sheets."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.silent = False
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.silent = False

    def handle_data(self, data):
        if not self.silent:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def still(page: str) -> str:
    """The page without its scripts."""
    return _SCRIPTS.sub("", page)


def data(page: str, number: int = 0) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the script of a page is given: the head and the arrays, read as `explorer/kit.js` reads them."""
    texts = re.findall(r'<script type="application/octet-stream">(.*?)</script>', page, re.DOTALL)
    raw = zlib.decompress(base64.b64decode(texts[number]))
    size = int.from_bytes(raw[:4], "little")
    head = json.loads(raw[4 : 4 + size])
    arrays: dict[str, np.ndarray] = {}
    at = 4 + size
    for entry in head["arrays"]:
        count, wide = int(np.prod(entry["shape"])), int(entry["kind"][1:])
        planes = np.frombuffer(raw[at : at + count * wide], np.uint8).reshape(wide, count)
        arrays[entry["name"]] = np.ascontiguousarray(planes.T).view("<" + entry["kind"]).reshape(entry["shape"])
        at += count * wide
    assert at == len(raw)
    return head, arrays


def styled(page: str) -> str:
    """The page without its scripts, each rule of its style sheet that stands for an attribute back in its place."""
    rules = dict(re.findall(r'^\[data-s="(\d+)"\]\S+ \{ (.*) \}$', page, re.MULTILINE))
    return re.sub(r'data-s="(\d+)"', lambda match: f'style="{rules[match[1]]}"', still(page))

"""The app over a tiny model, asked as a browser would; and what of a page is looked at."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from mixlens.app import Models, application

TEXT = "a deep and meaningful film ."


@contextmanager
def client(
    *folders: Path, models: Models | None = None, base: str = "http://localhost", **settings: Any
) -> Iterator[Any]:
    """A client of the app over models in these folders."""
    models = models or Models([str(folder) for folder in folders])
    with TestClient(application(models, **settings), base_url=base, follow_redirects=False) as made:
        yield made


def error(response: Any) -> str:
    """What an answer says went wrong, where a reader hears of it; nothing of where in the code."""
    (words,) = re.findall(r'<p class="error" role="alert">(.*?)</p>', response.text, re.S)
    assert "Traceback" not in response.text and ".py" not in words
    return html.unescape(words)


def data(page: str) -> list[str]:
    """What a page's explorer is given."""
    return re.findall(r'<script type="application/octet-stream">(.*?)</script>', page)

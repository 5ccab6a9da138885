"""The site of the docs: it is built, no link of it is broken, and every public name has its page of help there."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import mixlens

ROOT = Path(__file__).parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is for developers (extra docs)"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr  # strict: a link that leads nowhere ends it
    return folder


def test_every_public_name_has_its_help(site):
    page = (site / "reference" / "index.html").read_text("utf-8")
    for name in {*mixlens.__all__} - {"__version__", "architectures"}:
        assert f'id="mixlens.{name}"' in page, name
    for verb in ("attribute", "mixing", "trace", "compare", "similarity"):
        assert f'id="mixlens.Lens.{verb}"' in page, verb


def test_links_of_the_front_page_stay_on_the_site(site):
    page = (site / "index.html").read_text("utf-8")
    assert 'href="choosing/"' in page and 'href="contributing/"' in page and 'href="methods/"' in page
    assert 'src="film.png"' in page


def test_nothing_is_fetched_from_elsewhere(site):
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert 'src="http' not in text and '<link rel="stylesheet" href="http' not in text, path

"""A rendered page sealed: its styles and its script named by their hashes, and nothing else allowed to act or to load.

A browser that follows the policy runs and styles nothing that a token, a label or a file name may have smuggled in, and
loads nothing. Attributes `style="..."` are no exception, so they become rules of a style sheet.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

# One file a kind of result over what all are made of, in one scope: a page has no address to import from. The last one
# is that of where it stands, a `PLACE`.
MODULES = (
    "kit",
    "controls",
    "text",
    "photo",
    "attribution",
    "trace",
    "rolled",
    "heat",
    "maps",
    "comparison",
    "table",
    "main",
)
PLACES = ("page", "widget")
SHEETS = ("page", "explorer")

POLICY, LIFTED = "%POLICY%", "/*%LIFTED%*/"
_STYLE = re.compile(r'(<[a-z0-9]+(?: [a-z-]+(?:="[^"]*")?)*?) style="([^"]*)"')
_SCRIPT = re.compile(r'<script type="module">.*?</script>\n', re.S)
_META = re.compile(r'(<meta http-equiv="Content-Security-Policy" content=")[^"]*(">)')
NONE, SELF = "'none'", "'self'"
DATA = '<script type="application/octet-stream">'  # what a browser neither runs nor loads


@cache
def script(place: str = "page") -> str:
    """The module that every page carries, or that of another of `PLACES`."""
    return "".join(_text(f"{name}.js") for name in (*MODULES, place))


@cache
def style() -> str:
    """The style sheet of every page, with the place of what is lifted into it."""
    return "".join(_text(f"{name}.css") for name in SHEETS) + LIFTED


def _text(name: str) -> str:
    return (files("mixlens.view") / "explorer" / name).read_text("utf-8")


def sealed(page: str) -> str:
    """A page with its policy: `POLICY` and `LIFTED` are filled in, style attributes turned into classes.

    Text from outside is escaped before, so a quote or a bracket in it is no tag's and no attribute's here. A page
    without data has no script.
    """
    page, rules = lifted(page if DATA in page else _SCRIPT.sub("", page))
    page = page.replace(LIFTED, rules, 1)
    return page.replace(POLICY, _policy(page), 1)


def framed(page: str, head: str, style: str, script: str) -> str:
    """A sealed page with `head` in front of what it shows, sealed again with a style sheet and a script more.

    `head` may hold forms, which are sent to where the page came from alone.
    """
    front, mark, rest = page.partition("<main>")
    body, end, last = rest.rpartition("</body>")
    front = front.replace("<title>", f"<style>{style}</style>\n<title>", 1)
    page = f'{front}{head}{mark}{body}<script type="module">{script}</script>\n{end}{last}'
    return _META.sub(lambda match: f"{match[1]}{_policy(page, SELF)}{match[2]}", page, count=1)


def _policy(page: str, form: str = NONE) -> str:
    """What a page may do: its styles and scripts by their hashes, forms to `form`."""
    hashes = {
        kind: " ".join(f"'sha256-{_sha(text)}'" for text in re.findall(rf"<{tag}>(.*?)</{kind}>", page, re.S))
        or "'none'"
        for kind, tag in (("style", "style"), ("script", 'script type="module"'))
    }
    return (
        f"default-src 'none'; script-src {hashes['script'] or NONE}; style-src {hashes['style']}; img-src data:; "
        f"base-uri 'none'; form-action {form}"
    )


def _sha(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def lifted(page: str) -> tuple[str, str]:
    """The page with `data-s="NUMBER"` in place of each style attribute, and a rule for each number."""
    numbers: dict[str, int] = {}
    page = _STYLE.sub(lambda m: f'{m[1]} data-s="{numbers.setdefault(m[2].strip(), len(numbers))}"', page)
    # named twice, so that it wins over a sheet's rule, as an attribute does
    return page, "".join(f'\n[data-s="{n}"][data-s="{n}"] {{ {style} }}' for style, n in numbers.items()) + "\n"

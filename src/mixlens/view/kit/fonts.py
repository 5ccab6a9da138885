"""Which characters the installed fonts can draw."""

from __future__ import annotations

from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from mixlens.escape import visible
from mixlens.view.kit import style

# matplotlib brings the first; the rest are what systems have for other scripts (outlines only: it draws no bitmaps).
_WANTED = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "PingFang HK",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Bengali",
    "Noto Emoji",
    "Segoe UI Symbol",
    "Arial Unicode MS",
)
MISSING = "□"


def families() -> list[str]:
    """The fonts to draw with, each for what those before it lack: the style's first."""
    return list(dict.fromkeys([*style.first_families(), *_installed()]))


@cache
def _installed() -> tuple[str, ...]:
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(name for name in _WANTED if name in installed)


@cache
def _known(names: tuple[str, ...]) -> frozenset[int]:
    known: set[int] = set()
    for name in names:
        known.update(FT2Font(font_manager.findfont(name)).get_charmap())
    return frozenset(known)


def drawable(text: str) -> str:
    """`text` with `□` for every character that no font has; marks and joiners among those are left out."""
    known = _known(tuple(families()))
    joiners = {0x200D, 0xFE0E, 0xFE0F}
    return (
        "".join(c if ord(c) in known else "" if ord(c) in joiners else MISSING for c in visible(text) if c != "\n")
        or MISSING
    )

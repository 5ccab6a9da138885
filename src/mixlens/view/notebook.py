"""A page as a widget of a notebook: the explorer's own module, in a tree that no style of the notebook reaches."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Protocol

from mixlens.errors import Undefined, missing
from mixlens.view.kit import sealed

_PAGE = re.compile(r"<style>(.*?)</style>.*<body( class=\"wide\")?>\n(.*?</main>)", re.S)
_OWN = ".body { margin: 0; max-width: none; padding: .4rem 1rem 1.4rem; }\n.body h1 { font-size: 1.25rem; }\n"


class Shown(Protocol):
    """A result: it has a page of its own, and a still piece of HTML."""

    def to_html(self) -> str:
        """The page."""

    def _repr_html_(self) -> str: ...


def explore(result: Shown) -> Any:
    """A result's page as a widget: it answers clicks, taps and keys in a notebook as `to_html` does in a browser.

    The last line of a cell shows it, in Jupyter, VS Code, Colab, marimo (an `anywidget`; extra `notebook`). It loads
    nothing from a network. Where a notebook shows no widgets (on GitHub, or saved without their state) there is the
    still piece that the result itself shows. Raises Undefined for what is no result with a page, MissingExtra.

    Examples:
        >>> attr = lens.attribute("a deep and meaningful film.", method="alti")
        >>> widget = mixlens.explore(attr)  # doctest: +SKIP
        >>> "meaningful" in widget.page  # doctest: +SKIP
        True
    """
    if isinstance(result, type) or not hasattr(result, "to_html") or not hasattr(result, "_repr_html_"):
        raise Undefined(
            "expected a result that has a page (an Attribution, LayerMaps, Trace, Comparison, Similarity, a Table or a "
            f"list of results as a call gives it), got {type(result).__name__}; a folder of explain_data has its page "
            "in it, summary.html"
        )
    return _widget()(page=framed(result.to_html()), still=result._repr_html_())


def framed(page: str) -> str:
    """What a sealed page shows, with its styles, for a tree of its own inside of another page."""
    parts = _PAGE.search(page)
    if parts is None:
        raise Undefined("expected a page that mixlens made")
    style, wide, main = parts.groups()
    style = style.replace(":root", ":host")
    style = re.sub(r"(?m)(^|[{}]\s*)body(?=[ .{])", r"\1.body", style)
    return f'<style>{style}\n{_OWN}</style>\n<div class="body{" wide" if wide else ""}">{main}</div>'


@cache
def _widget() -> Any:
    """The class of widgets, which exists where its package does. Raises MissingExtra."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise missing("explore()", "anywidget", "notebook") from None

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc]
        """A page; `still`: what stands in its place where widgets are not shown."""

        _esm = sealed.script("widget")
        page = traitlets.Unicode(read_only=False).tag(sync=True)
        still = traitlets.Unicode()

        def _repr_mimebundle_(self, **kwargs: Any) -> Any:
            shown = super()._repr_mimebundle_(**kwargs)
            data, *facts = shown if isinstance(shown, tuple) else (shown or {},)
            data = {**data, "text/html": self.still}
            return (data, *facts) if facts else data

    return Explorer

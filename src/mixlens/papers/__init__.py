"""Where methods and measures come from: `mixlens.cite`, over one table of papers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mixlens.errors import UnknownMethod, did_you_mean
from mixlens.inventory import measures, methods
from mixlens.papers.table import PAPERS
from mixlens.version import __version__

OURS = "mixlens"


def cite(*names: str) -> str:
    """BibTeX of the papers that methods and measures come from, and of mixlens; of mixlens alone without a name.

    A name is one of `mixlens.methods()` or `mixlens.measures()`, or a composition (`"globenc+rollout"`); where stages
    share it, what each takes from. A comment in front says which name is from where; an entry stands once. Raises
    UnknownMethod.

    Examples:
        >>> print(mixlens.cite("value_zeroing").partition("@inproceedings")[2].splitlines()[0])
        {mohebbi2023,
        >>> mixlens.cite("alti", "globenc").count("@inproceedings")
        2
    """
    facts = [*methods(), *measures()]
    comments, keys = list[str](), list[str]()
    for name in names:
        if not isinstance(name, str):
            raise UnknownMethod(f"expected names of methods and measures, each a str, got {name!r:.80}")
        for part in dict.fromkeys(_parts(name)):
            cites = list(dict.fromkeys(fact["cite"] for fact in facts if fact["name"] == part))
            if not cites:
                known = list(dict.fromkeys(fact["name"] for fact in facts))
                raise UnknownMethod(f"no method or measure {part!r}{did_you_mean(part, known)}")
            exact = (text for text in cites if not any(text != more and more.startswith(text) for more in cites))
            told = "; ".join(text for text in exact if papers_of(text)) or f"no paper but {OURS}"
            comments.append(f"% {part}: {told}\n")
            keys += [key for text in cites for key in papers_of(text)]
    entries = [PAPERS[key].bibtex() for key in dict.fromkeys(keys)]
    return "\n".join(["".join(dict.fromkeys(comments)) + _software(), *entries])


def papers_of(cited: str) -> list[str]:
    """The keys of the table in the words of a method's `cite`: `"Kobayashi 2021; Ferrando 2022, Eq. 3"`."""
    names = (re.sub(r" \(.*\)$", "", part.partition(",")[0].strip()) for part in cited.split(";"))
    return [name for name in names if name in PAPERS]


def _parts(name: str) -> Sequence[str]:
    """A name, or those of a composition: a mixing method, and an aggregation without its number."""
    mixing, plus, aggregation = name.partition("+")
    return (mixing, aggregation.partition(":")[0]) if plus else (name,)


def _software() -> str:
    title = "mixlens: which tokens a Transformer mixes, and which of them made it decide"
    lines = ("author = {{The mixlens authors}}", f"title = {{{{{title}}}}}", f"note = {{Version {__version__}}}")
    return f"@misc{{{OURS},\n  " + ",\n  ".join(lines) + "\n}\n"

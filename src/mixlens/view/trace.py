"""A `Trace`, and a `UnitTrace`, as a page, LaTeX, a terminal's text and a pandas table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mixlens.escape import one_line, visible
from mixlens.files import put
from mixlens.view import trace_data
from mixlens.view.kit import arrays, caption, colors, frames, html, latex, spelling, terminal, words
from mixlens.view.kit.drawn_trace import Part, Trace, UnitTrace

if TYPE_CHECKING:
    import pandas

_TOP = 5  # sources of a sentence
_OPEN = 4  # sentences up to which all are unfolded
_WORDS = 400  # of a prompt in a terminal
_COLOURED = 20_000  # words of a page (the prompt once a sentence) up to which all are coloured
_FAINT = 0.02  # of the largest score: words below it are left plain on larger pages
_SHORT = 160  # characters of a unit in a table


def by_sentence(trace: Trace) -> UnitTrace:
    """The answer by sentence, the prompt by word; by token, and the answer as one, where no text is known."""
    words_known, answer_words = trace.prompt.has_words, trace.answer.has_words
    return trace.units(("word" if words_known else "token", "sentence" if answer_words else "turn"))


def page(trace: Trace, path: str | os.PathLike[str] | None = None) -> str:
    """The page of a trace; written to `path` if given. Raises ResultFileError."""
    values = {**_values(trace), "data": trace_data.of_trace(trace), "wide": True}
    return put(html.page("trace.html", **values, facts=caption.provenance(bare(trace))), path)


def fragment(trace: Trace) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("trace_fragment.html", **_values(trace))


def _values(trace: Trace) -> dict[str, Any]:
    """What the templates of a trace need."""
    units = by_sentence(trace)
    size, kept = len(trace.prompt), [u for u in units.answer if u.where == "answer"] or list(units.answer)
    whole = trace.span(0, len(trace), prompt_only=True)
    shown = words.parts(whole)
    plain = len(shown) * (len(kept) + 1) > _COLOURED
    tops = {top.answer: top.sources for top in units.top(_TOP)}
    cited = {citation.answer.indices: citation for citation in trace_data.citations(trace)}
    sections = []
    for number, unit in enumerate(kept, 1):
        a, b = unit.indices[0] - size, unit.indices[-1] - size + 1
        attr = trace.span(a, b, prompt_only=True)
        parts = words.parts(attr)
        values = html.text(attr, parts)
        lines = _plain(values["lines"], words.scale(parts)) if plain else values["lines"]
        citation = cited.get(unit.indices)
        sections.append(
            {
                **{"number": number, "name": short(unit.text), "says": _probability(units, unit)},
                **{"lines": lines, "legend": values["legend"], "held": values["held"], "own": _own_share(trace, a, b)},
                "top": html.bars([(_source(s, unit), s.score, False) for s in tops[unit]]),
                "citation": citation,
                "foil": None if attr.target is None or attr.target.foil is None else spelling.spelled(attr.target.foil),
            }
        )
    values = html.text(whole, shown)
    return {
        **{k: values[k] for k in ("legend", "held", "special", "specific", "words_known", "units", "unit")},
        "lines": _plain(values["lines"], words.scale(shown)) if plain else values["lines"],
        **{
            "heading": caption.heading(bare(trace)),
            "says": _says(trace),
            "warnings": caption.warnings(bare(trace)),
        },
        **{"answer": _answer(trace, [u.indices for u in kept]), "sections": sections, "foil": trace.foil},
        **{"plain": plain, "faint": f"{100 * _FAINT:.0f} %", "unfolded": len(kept) <= _OPEN},
        "documents": bool(trace.meta.get("documents")),
        "grey": trace_data.grey(trace),
        "excluded": _count(trace.meta.get("excluded")),
    }


def bare(result: Any) -> Any:
    """A result as whatever the kit takes: it reads attributes."""
    return result


def _count(excluded: Any) -> int:
    return len(excluded) if isinstance(excluded, (tuple, list)) else 0


def _plain(lines: list[dict[str, Any]], scale: colors.Scale) -> list[dict[str, Any]]:
    """The lines with words of next to no score as plain text, several in one."""
    out = []
    for line in lines:
        kept: list[dict[str, Any]] = []
        for word in line["words"]:
            part = word["part"]
            if part.special or part.opens or abs(scale.share(part.score)) >= _FAINT:
                kept.append(word)
            elif kept and "plain" in kept[-1]:
                kept[-1]["plain"] += part.before + part.text
            else:
                kept.append({"plain": part.before + part.text})
        out.append({**line, "words": kept})
    return out


def _answer(trace: Trace, sentences: list[tuple[int, ...]]) -> list[dict[str, Any]]:
    """The answer's tokens in order, each with what the model says there and the number of its sentence."""
    size, stream, at = len(trace.prompt), trace.answer, 0
    number = {i - size: k for k, indices in enumerate(sentences, 1) for i in indices}
    text = stream.raw if isinstance(stream.raw, str) else None
    out = []
    for t, name in enumerate(stream.display):
        place = None if text is None or stream.offsets is None else stream.offsets[t]
        before, shown = "", spelling.spelled(name)
        if text is not None and place is not None:
            before, shown = text[at : max(at, place[0])], text[max(at, place[0]) : max(at, place[1])]
            at = max(at, place[1])
        elif text is None:  # no characters are known: a blank at a name's front stands before it
            before, shown = " " * shown.startswith("␣"), shown.removeprefix("␣") or "␣"
        special = stream.special[t]
        detail = visible(f"{' '.join(spelling.spelled(name).split())}: {trace_data.token_says(trace, t)}")
        out.append({"before": before, "text": shown, "special": special, "number": number.get(t), "detail": detail})
    return out


def _says(trace: Trace) -> str | None:
    known = [facts.get("target_probability") for facts in trace.said]
    numbers = [p for p in known if isinstance(p, (int, float))]
    if not numbers:
        return None
    low = min(numbers)
    count = len(trace)
    least = f", the least likely token {spelling.probability(low)}" if count > 1 else f", probability {low:.3g}"
    return one_line(f"{count} answer token{'' if count == 1 else 's'} from {len(trace.prompt)} of the prompt{least}")


def _probability(units: UnitTrace, unit: Part) -> str | None:
    """Of the unit's tokens together; of several also their geometric mean, since the product is small of a long one."""
    p, count = units.probabilities[units.answer.index(unit)], len(unit.indices)
    if p is None:
        return None
    return f"probability {spelling.probability(p)}" + (f", {p ** (1 / count):.2f} a token" if count > 1 else "")


def _own_share(trace: Trace, a: int, b: int) -> str | None:
    """What the answer's own tokens hold of these rows; None for nothing."""
    rows = arrays.values(trace.scores)[a:b]
    total, answered = abs(rows).sum(), abs(rows[:, len(trace.prompt) :]).sum()
    if not answered:
        return None
    share = 100 * answered / total
    return f"{'under 1' if share < 1 else f'{share:.0f}'} %"


def _source(source: Any, answer: Part) -> str:
    """A source in a table; one of the answer's own says so, its tokens before those that are explained too."""
    if source.unit == answer:
        return "(itself, so far)"
    return ("answer: " if source.unit.where == "answer" else "") + short(source.unit.name, 60)


def short(text: str, limit: int = _SHORT) -> str:
    """A unit's text on one line, not all of a long one."""
    line = one_line(text) or "␣"
    return line if len(line) <= limit else line[: limit - 1] + "…"


def unit_page(trace: UnitTrace, path: str | os.PathLike[str] | None = None) -> str:
    """The page of a trace by units; written to `path` if given. Raises ResultFileError."""
    scores = arrays.values(trace.scores)
    named = max(scores.shape) <= html.NAMED
    scale = colors.scale(scores.ravel())
    cell = html.CELL if named else max(2, 720 // scores.shape[1])
    picture = {
        **{"name": "answer (down) by source (across)", **html.png(scores, scale)},
        **{"width": scores.shape[1] * cell, "height": scores.shape[0] * (html.CELL if len(scores) <= 48 else 4)},
        "rows": [short(unit.name, 40) for unit in trace.answer] if len(scores) <= html.NAMED else [],
        "columns": [short(unit.name, 40) for unit in trace.sources] if named else [],
    }
    rows = [
        {
            **{"name": short(top.answer.name), "says": _probability(trace, top.answer)},
            "top": html.bars([(_source(s, top.answer), s.score, False) for s in top.sources]),
        }
        for top in trace.top(_TOP)
    ]
    head: dict[str, Any] = {
        "heading": caption.heading(bare(trace)),
        "says": None,
        "foil": _foil(trace),
        "warnings": caption.warnings(bare(trace)),
    }
    head |= {"data": trace_data.of_units(trace), "wide": True}
    facts = [("method", trace.method), ("by", " and ".join(dict.fromkeys(trace.by)))]
    known = [*trace.options.items(), *sorted(trace.meta.items(), key=lambda pair: (pair[0] != "model", pair[0]))]
    facts += [(visible(str(k).replace("_", " ")), visible(spelling.value_text(v))) for k, v in known]
    legend = html.legend(scale)
    text = html.page(
        "trace_units.html", **head, picture=picture, legend=legend, rows=rows, facts=facts, unfolded=len(rows) <= 12
    )
    return put(text, path)


def tex(trace: UnitTrace) -> str:
    """A tabular, a row a unit of the answer."""
    rows = []
    for top, p in zip(trace.top(_TOP), trace.probabilities, strict=True):
        sources = ", ".join(f"{short(s.unit.name, 40)} ({spelling.number(s.score)})" for s in top.sources)
        odds = "-" if p is None else spelling.probability(p)
        rows.append([latex.escape(short(top.answer.name)), latex.escape(odds), latex.escape(sources)])
    lines = [
        r"% needs \usepackage[T1]{fontenc} and \usepackage{booktabs}; XeLaTeX or LuaLaTeX for text beyond Latin"
        " scripts",
        f"% mixlens: {latex.comment(caption.heading(bare(trace)))}",
        *([] if (foil := _foil(trace)) is None else [f"% rather than {latex.comment(foil)}"]),
        *latex.tabular(["answer", "probability", "largest sources"], rows, r"p{0.35\linewidth}rp{0.4\linewidth}"),
    ]
    return "\n".join([*lines, ""])


def printout(trace: Any) -> RenderableType:
    """The prompt on its colours for the whole answer, and each unit of the answer with its largest sources."""
    units = trace if hasattr(trace, "sources") else by_sentence(trace)
    rows: list[RenderableType] = [
        Text(caption.heading(bare(trace)), style="bold"),
        *terminal.warnings(bare(trace)),
    ]
    if (foil := _foil(trace)) is not None:
        rows.append(Text(f"rather than {foil}"))
    if units is not trace:
        if summary := _says(trace):
            rows.append(Text(summary))
        shown = words.parts(trace.span(0, len(trace), prompt_only=True))
        scale = words.scale(shown)
        rows.append(Padding(terminal.running(shown[:_WORDS], scale), (0, 1), style=terminal.PAPER))
        notes = [f"the first {_WORDS} of {len(shown)} words"] if len(shown) > _WORDS else []
        rows.append(terminal.legend(scale, [*notes, *filter(None, [words.held(shown, trace.prompt.units)])]))
    scale = colors.scale(arrays.values(units.scores).ravel())
    table = Table(box=None, pad_edge=False, header_style="dim", show_lines=False)
    table.add_column(Text("answer"), max_width=44)
    table.add_column(Text("probability"), justify="right", no_wrap=True)
    table.add_column(Text("largest sources"))
    for top, p in zip(units.top(_TOP), units.probabilities, strict=True):
        line = Text()
        for source in top.sources:
            line.append(", " if line else "")
            style = f"#{scale.ink(source.score)} on #{scale.hex(source.score)}"
            line.append(short(source.unit.name, 40), style=style)
            in_answer = source.unit.where == "answer"
            which = " (itself, so far)" if source.unit == top.answer else " (answer)" if in_answer else ""
            line.append(f" {spelling.number(source.score)}{which}")
        table.add_row(Text(short(top.answer.name)), Text("-" if p is None else spelling.probability(p)), line)
    return Group(*rows, table, *(() if units is trace else _cited(trace)))


def _foil(trace: Trace | UnitTrace) -> str | None:
    """What the answer is explained rather than, of a trace by tokens or by units."""
    foil = bare(trace).meta.get("foil") if hasattr(trace, "sources") else bare(trace).foil
    return None if foil is None else one_line(foil)


def _cited(trace: Trace) -> list[Text]:
    """A line for each sentence of the answer: what it came from, as the page has it."""
    lines = []
    for citation in trace_data.citations(trace):
        line = Text(f"{short(citation.answer.name)} came from ")
        for number, source in enumerate(citation.sources):
            chance = "stands out of" if source.stands_out else "no more than"
            line.append(", " if number else "").append(
                short(source.name, 40), style="bold" if source.stands_out else ""
            )
            line.append(f" {100 * source.share:.0f} % ({chance} chance, p = {spelling.number(source.p)})", style="dim")
        lines.append(line if citation.sources else Text(f"{short(citation.answer.name)}: no source of 5 %"))
    return lines


def data_frame(result: Any, columns: Mapping[str, str]) -> pandas.DataFrame:
    """The rows of `to_dicts` with their `columns`' kinds; method and model among `.attrs`. Raises MissingExtra."""
    pd = frames.pandas_module()
    kinds = {"str": "object", "int": "Int64", "float": "float64"}
    rows = result.to_dicts()
    table = {name: pd.array([row[name] for row in rows], dtype=kinds[kind]) for name, kind in columns.items()}
    return frames.with_origin(pd.DataFrame(table), bare(result))

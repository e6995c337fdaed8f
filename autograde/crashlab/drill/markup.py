"""Texts of the bank, an answer and the page of an interview as HTML."""

import re
from collections.abc import Iterable
from html import escape

from crashlab.bank import Language
from crashlab.drill.content import Section
from crashlab.drill.mock import Page, Score
from crashlab.drill.words import word


def text_html(text: str) -> str:
    """A text, escaped, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def html(kind: str, *lines: str) -> str:
    """Lines of one kind, by which a style sheet knows them."""
    return f'<div class="{kind}">{"<br>".join(map(text_html, lines))}</div>'


def columns_html(sections: Iterable[Section]) -> str:
    """Sections side by side, where there is room for it."""
    columns = "".join(f"<div>{sections_html([each])}</div>" for each in sections)
    return f'<div class="columns">{columns}</div>'


def sections_html(sections: Iterable[Section]) -> str:
    """Sections one below the other."""
    return "".join(f"<h4>{text_html(each.heading)}</h4>{_lines(each.lines)}" for each in sections)


def page_html(page: Page, language: Language) -> str:
    """What stands at the end of an interview."""
    parts = [f"<h3>{word('result', language, rated=page.rated, asked=page.asked)}</h3>"]
    if page.rated:
        tables = (_table(name, getattr(page, name), language) for name in ("parts", "tags"))
        parts.append(
            f'<p>{word("scale", language)}</p><div class="columns">{"".join(tables)}</div>'
        )
        parts.append(f"<h4>{word('say again' if page.again else 'none again', language)}</h4>")
    if page.rated < page.asked:
        left = word("not reached", language, count=page.asked - page.rated, asked=page.asked)
        parts.insert(1, f"<p>{left}</p>")
    items = (
        word(
            "reread",
            language,
            question=text_html(each.asked.ask.in_(language)),
            notebook=f"<code>{escape(each.asked.notebook)}</code>",
        )
        for each in page.again
    )
    return "".join(parts) + f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _lines(lines: tuple[str, ...]) -> str:
    if len(lines) > 1:
        return f"<ul>{''.join(f'<li>{text_html(line)}</li>' for line in lines)}</ul>"
    return "".join(f"<p>{text_html(line)}</p>" for line in lines)


def _table(name: str, scores: tuple[Score, ...], language: Language) -> str:
    heads = "".join(f"<th>{word(key, language)}</th>" for key in (name, "average", "ratings"))
    rows = "".join(
        f"<tr><td>{escape(score.name or word('elsewhere', language))}</td>"
        f"<td>{score.average:.1f}, {word('strong' if score.strong else 'weak', language)}</td>"
        f"<td>{score.count}</td></tr>"
        for score in scores
    )
    return f"<div><table><tr>{heads}</tr>{rows}</table></div>"

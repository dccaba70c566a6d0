"""How records show themselves in Jupyter and in a terminal by rich: as a summary of facts and small tables.

A record that derives from `Shown` is asked for by notebooks (`_repr_html_`) and by rich (`__rich__`). What
the summary of a record is, is registered with `summary_of` by `tfdeploy/showing/`, because a summary needs
more of the project than the record itself may import.
"""

from __future__ import annotations

import html
from functools import singledispatch
from typing import Any

from attrs import frozen

MOST_ROWS = 20
"""The most rows of a table that are shown; a last line has the number of the others."""


@frozen
class Table:
    """A table of a summary."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    left: int = 1  # the number of columns with words, which begin at the left; the others have numbers

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The rows that are shown."""
        return self.rows[:MOST_ROWS]

    @property
    def rest(self) -> str:
        """The words for the rows that are not shown; empty if all are."""
        return f"and {len(self.rows) - MOST_ROWS:,} more" if len(self.rows) > MOST_ROWS else ""


@frozen
class Summary:
    """What is shown of a record."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    # Small tables. Those without rows are left out.
    tables: tuple[Table, ...] = ()
    source: str = ""  # a longer text, which a notebook shows when it is asked to
    pictures: tuple[str, ...] = ()  # pictures as SVG, which a notebook shows side by side
    drawing: str = ""  # the same in characters, for a terminal

    def as_html(self) -> str:
        """Return the summary as HTML, in which no text of a record becomes markup."""
        parts = [f"<div><strong>{html.escape(self.title)}</strong>"]
        if self.facts:
            parts.append(_html_table(Table((), self.facts, left=2)))
        parts += [_html_table(each) for each in self.tables if each.rows]
        if self.pictures:
            boxes = "".join(
                f'<div style="width: 24em; max-width: 100%">{each}</div>' for each in self.pictures
            )
            parts.append(f'<div style="display: flex; flex-wrap: wrap; gap: 1em">{boxes}</div>')
        if self.source:
            parts.append(f"<details><summary>text</summary><pre>{html.escape(self.source)}</pre></details>")
        return "\n".join([*parts, "</div>"])

    def as_rich(self) -> Any:
        """Return what rich prints: a `rich.console.Group`."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        parts: list[Any] = [Text(self.title, style="bold")]
        facts = Table(("", ""), self.facts, left=2)
        for each in (facts, *self.tables):
            if not each.rows:
                continue
            grid = RichTable(
                title=Text(each.title) if each.title else None,
                title_justify="left",
                show_header=any(each.head),
                box=None,
                pad_edge=False,
            )
            for at, name in enumerate(each.head):
                grid.add_column(Text(name), justify="left" if at < each.left else "right", overflow="fold")
            for row in each.shown:
                grid.add_row(*map(Text, row))
            parts += [Text(""), grid, *([Text(each.rest)] if each.rest else [])]
        if self.drawing:
            parts += [Text(""), Text(self.drawing)]
        return Group(*parts)


def _html_table(table: Table) -> str:

    def row(cells: tuple[str, ...], tag: str) -> str:
        sides = ("left" if at < table.left else "right" for at in range(len(cells)))
        written = (
            f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{''.join(written)}</tr>"

    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    head = f"<thead>{row(table.head, 'th')}</thead>" if table.head else ""
    body = "\n".join(row(each, "td") for each in table.shown)
    rest = f"<p>{html.escape(table.rest)}</p>" if table.rest else ""
    return f"<table>{caption}{head}<tbody>\n{body}\n</tbody></table>{rest}"


@singledispatch
def summary_of(_: object) -> Summary | None:
    """Return what is shown of a record; None if no summary of its class has been registered."""
    return None


class Shown:
    """The base class of records that show themselves."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows; None, for which it shows the `repr`, without a registered summary."""
        found = summary_of(self)
        return found.as_html() if found is not None else None

    def __rich__(self) -> Any:
        """Return what rich prints."""
        found = summary_of(self)
        return found.as_rich() if found is not None else repr(self)

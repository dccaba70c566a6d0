"""Diagnostics as workflow commands of GitHub Actions, which GitHub shows next to the changed lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.formats.cells import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.diagnostics import Diagnostic


def github(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield a workflow command for each diagnostic; notes and help follow the message on separate lines."""
    for each in diagnostics:
        properties = [("title", f"{each.code} {each.name}")]
        if each.file is not None:
            properties.insert(0, ("file", each.file))
        if each.span is not None:
            begin, finish = each.span.begin, each.span.finish
            place = [("file", each.span.source.name), ("line", begin.line), ("endLine", finish.line)]
            if begin.line == finish.line:  # columns are shown only for what is on one line
                place += [("col", begin.column), ("endColumn", finish.column)]
            properties = [(key, str(value)) for key, value in place] + properties[-1:]
        lines = [each.message, *(f"note: {note}" for note in each.notes)]
        if each.help:
            lines.append(f"help: {each.help}")
        settings = ",".join(f"{key}={_property(value)}" for key, value in properties)
        yield visible(f"::{each.severity.value} {settings}::{_data(chr(10).join(lines))}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

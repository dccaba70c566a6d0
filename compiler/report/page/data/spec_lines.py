"""The lines of the spec to which a placement map refers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import RuleRef
from dsl import ir
from dsl.files.regular import read_regular
from dsl.source import Span

Lines = Mapping[str, Mapping[int, str]]
"""Lines of specs by file and number, from 1."""

AROUND = 3
"""The number of lines that are shown before and after that of a rule."""


def rules_of(placement: AnyMap) -> Iterable[RuleRef]:
    """Return the different rules of a map; the texts of a map by kinds may be templates."""
    return dict.fromkeys(
        [each.rule for each in placement.variables_like] + [each.rule for each in placement.ops_like]
    )


def lines_of(placement: AnyMap, texts: Mapping[str, str], spans: Iterable[Span] = ()) -> Lines:
    """Return the lines of the map's rules and of other places, and those around them."""
    found: dict[str, dict[int, str]] = {}
    places = dict.fromkeys((each.file, each.line) for each in rules_of(placement))
    listed = list(spans)
    places |= dict.fromkeys((each.source.name, each.begin.line) for each in listed)
    texts = {**{each.source.name: each.source.text for each in listed}, **texts}
    split = {file: text.replace("\r\n", "\n").removesuffix("\n").split("\n") for file, text in texts.items()}
    for file, line in places:
        if file in split and line is not None:
            lines = split[file]
            for number in range(max(1, line - AROUND), min(len(lines), line + AROUND) + 1):
                found.setdefault(file, {})[number] = lines[number - 1]
    return found


def texts_of(spec: ir.Spec) -> dict[str, str]:
    """Return the texts that contain the rules of a spec, by their files."""
    sources = {rule.span.source for rule in spec.place.rules if rule.span is not None}
    return {each.name: each.text for each in sources}


def texts_on_disk(placement: AnyMap) -> dict[str, str]:
    """Return the text of the spec if the file still exists and is the one from which the map was made."""
    try:
        raw = read_regular(placement.spec.path)
    except OSError:
        return {}
    if hashlib.sha256(raw).hexdigest() != placement.spec.sha256:
        return {}
    return {placement.spec.path: raw.decode("utf-8", errors="replace")}

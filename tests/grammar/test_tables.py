"""The stored tables of the parser."""

from __future__ import annotations

from typing import Any

import lark

from grammar import tables


def test_stored_tables_are_of_this_grammar() -> None:
    """After a change of the grammar the tables are made anew: python -m grammar.tables."""
    assert tables.current()


def test_stored_tables_parse_as_built_ones_do() -> None:
    """The parser from the tables has the rules, terminals and states of the one built from the grammar."""
    built = tables.build(tables.grammar())
    stored = tables.parser()
    assert _rules(stored) == _rules(built)
    assert _terminals(stored) == _terminals(built)
    assert _states(stored) == _states(built)


def _rules(parser: lark.Lark) -> list[dict[str, Any]]:
    """Return all that is to be known of each rule."""
    return [rule.serialize() for rule in parser.rules]


def _terminals(parser: lark.Lark) -> dict[str, tuple[object, ...]]:
    return {
        each.name: (each.pattern.type, each.pattern.to_regexp(), each.pattern.max_width, each.priority)
        for each in parser.terminals
    }


def _states(parser: lark.Lark) -> int:
    return len(parser.parser.parser.parser.parse_table.states)

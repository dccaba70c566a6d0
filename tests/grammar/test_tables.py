"""The stored tables of the parser."""

from __future__ import annotations

import lark

from grammar import tables


def test_stored_tables_are_of_this_grammar() -> None:
    """After a change of the grammar the tables are made anew: python -m grammar.tables."""
    assert tables.current()


def test_stored_tables_parse_as_built_ones_do() -> None:
    """The parser from the tables has the rules, terminals and states of the one built from the grammar."""
    built = tables.build(tables.grammar())
    stored = tables.parser()
    assert {str(rule) for rule in stored.rules} == {str(rule) for rule in built.rules}
    assert _patterns(stored) == _patterns(built)
    assert _states(stored) == _states(built)


def _patterns(parser: lark.Lark) -> dict[str, str]:
    return {each.name: each.pattern.to_regexp() for each in parser.terminals}


def _states(parser: lark.Lark) -> int:
    return len(parser.parser.parser.parser.parse_table.states)

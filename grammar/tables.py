"""The LALR parser of the grammar, from tables that were worked out beforehand.

Building it from `tfdeploy.lark` takes about 50 ms, which every command would pay; loading the tables takes 3.
They are kept in `tables.json`, beside the digest of the grammar and the version of lark they are for; where
either differs the parser is built from the grammar. `python -m grammar.tables` writes the file afresh.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import lark
from lark.grammar import NonTerminal, Rule, RuleOptions, Terminal
from lark.lexer import PatternRE, PatternStr, TerminalDef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRAMMAR = f"{__file__.removesuffix('tables.py')}tfdeploy.lark"
RULE = 5
"""The length of a rule's row, by which it is told from a terminal's."""
TABLES = f"{__file__.removesuffix('tables.py')}tables.json"


class _KeepTerminals:
    """Tells lark to keep the terminals that only the lexer's reports need."""

    always_accept = ("OPEN_STRING", "OTHER_QUOTED", "BAD_NUMBER", "UNKNOWN")

    @staticmethod
    def process(tokens: Iterator[lark.Token]) -> Iterator[lark.Token]:
        return tokens


@cache
def parser() -> lark.Lark:
    """Return the parser; it has no state and is shared."""
    stored = _stored(_key(grammar()))
    return build(grammar()) if stored is None else stored


def grammar() -> str:
    """Return the text of the grammar."""
    return _text(GRAMMAR)


def build(text: str) -> lark.Lark:
    """Make a parser from the text of a grammar."""
    return lark.Lark(
        text,
        parser="lalr",
        lexer="basic",
        keep_all_tokens=True,
        maybe_placeholders=False,
        postlex=_KeepTerminals(),
    )


def current() -> bool:
    """Whether `tables.json` is for the grammar and the lark that are here."""
    return _stored(_key(grammar())) is not None


def write() -> None:
    """Work the tables out and write them to `tables.json`."""
    data, memo = build(grammar()).memo_serialize([TerminalDef, Rule])
    data["options"] = {"parser": "lalr", "lexer": "basic", "keep_all_tokens": True, "start": ["start"]}
    rows = {
        number: (_row_of_terminal if "pattern" in each else _row_of_rule)(each)
        for number, each in memo.items()
    }
    content = {"key": _key(grammar()), "data": data, "memo": rows}
    with open(TABLES, "w", encoding="utf-8") as file:  # noqa: PTH123 as in _text
        file.write(json.dumps(content, separators=(",", ":")) + "\n")


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 importing pathlib takes 3 ms of every command
        return file.read()


def _key(text: str) -> str:
    return f"{lark.__version__} {sha256(text.encode()).hexdigest()}"


def _stored(key: str) -> lark.Lark | None:
    try:
        content = json.loads(_text(TABLES))
    except FileNotFoundError:
        return None
    if content["key"] != key:
        return None
    tables: dict[str, Any] = content["data"]["parser"]["parser"]
    tables["tokens"] = _by_number(tables["tokens"])
    tables["states"] = {int(state): _by_number(row) for state, row in tables["states"].items()}
    memo = {
        int(number): (_rule if len(row) == RULE else _terminal)(*row)
        for number, row in content["memo"].items()
    }
    # What lark.Lark.load does, without the pickle in between.
    load: Callable[..., lark.Lark] = lark.Lark._load_from_dict  # noqa: SLF001
    return load(content["data"], memo, postlex=_KeepTerminals())


# Lark's own form of terminals and rules has several times as many objects as these rows, and takes longer to
# read.


def _row_of_terminal(data: dict[str, Any]) -> list[Any]:
    pattern = data["pattern"]
    return [data["name"], data["priority"], pattern["value"], pattern.get("_width")]


def _terminal(name: str, priority: int, value: str, width: list[int] | None) -> TerminalDef:
    """Return a terminal; that of a regular expression has a `width`, which takes lark a while to find."""
    if width is None:
        return TerminalDef(name, PatternStr(value), priority)
    pattern = PatternRE(value)
    pattern._width = width  # noqa: SLF001
    return TerminalDef(name, pattern, priority)


def _row_of_rule(data: dict[str, Any]) -> list[Any]:
    options = data["options"]
    symbols = [each["name"] for each in data["expansion"]]
    return [data["origin"]["name"], symbols, data["order"], data["alias"], options["empty_indices"]]


def _rule(origin: str, symbols: list[str], order: int, alias: str | None, empty: list[bool]) -> Rule:
    """Return a rule; names of terminals are in capitals."""
    expansion = [Terminal(name) if name.isupper() else NonTerminal(name) for name in symbols]
    options = RuleOptions(keep_all_tokens=True, empty_indices=tuple(empty))
    return Rule(NonTerminal(origin), expansion, order, alias, options)


def _by_number(table: dict[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in table.items()}


if __name__ == "__main__":
    write()

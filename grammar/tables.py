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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRAMMAR = f"{__file__.removesuffix('tables.py')}tfdeploy.lark"
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
    data, memo = build(grammar()).memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    data["options"] = {"parser": "lalr", "lexer": "basic", "keep_all_tokens": True, "start": ["start"]}
    content = {"key": _key(grammar()), "data": data, "memo": memo}
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
    memo = _by_number(content["memo"])
    # What lark.Lark.load does, without the pickle in between.
    load: Callable[..., lark.Lark] = lark.Lark._load_from_dict  # noqa: SLF001
    return load(content["data"], memo, postlex=_KeepTerminals())


def _by_number(table: dict[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in table.items()}


if __name__ == "__main__":
    write()

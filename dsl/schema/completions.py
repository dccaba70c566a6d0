"""Completions for `--set` on the command line, made from the schema."""

from __future__ import annotations

from collections.abc import Iterator

from dsl.schema import BLOCKS, ROOT, Type, function_names, signatures


def override_completions(typed: str) -> tuple[str, ...]:
    """Return the completions of a partly typed `PATH` or `PATH=VALUE` for `--set`."""
    path, equals, value = typed.partition("=")
    if not equals:
        paths = (f"{block}.{each}=" for block in ROOT for each in BLOCKS[block].names)
        return tuple(each for each in paths if each.startswith(typed))
    block, _, name = path.partition(".")
    attribute = BLOCKS[block].attribute(name) if block in BLOCKS else None
    if attribute is None:
        return ()
    return tuple(f"{path}={each}" for each in _values(attribute.type) if each.startswith(value))


def _values(kind: Type) -> Iterator[str]:
    """Yield the words, and the beginnings of calls, that a type allows; nothing for numbers and strings."""
    yield from kind.words
    for option in kind.options:
        yield from _values(option)
    if kind.kind == "bool":
        yield from ("true", "false")
    if kind.kind == "keras":
        yield from (f"{each}(" for each in signatures.names(kind.of))
    if kind.kind == "call":
        yield from (f"{each}(" for each in function_names(kind.of))
    if kind.optional:
        yield "none"

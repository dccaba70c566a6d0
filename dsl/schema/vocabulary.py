"""The words of the language by what they are, for tools that colour specs, and for completions of `--set`."""

from __future__ import annotations

from collections.abc import Iterator

from dsl.schema import signatures
from dsl.schema.blocks import BLOCKS, ROOT, ROOT_ATTRIBUTES
from dsl.schema.functions import FUNCTIONS, function_names
from dsl.schema.placement import MEASURES, SELECTORS, TARGETS
from dsl.schema.types import DTYPES, Type
from dsl.values import CONSTANTS

MAKERS = ("input", "layer", "parameter", "repeat", "weight")
"""The functions of models that make inputs, shared layers, parameters, repeated steps and free weights."""

LITERALS = tuple(CONSTANTS)


def blocks() -> tuple[str, ...]:
    """Return the kinds of blocks."""
    return tuple(BLOCKS)


def attributes() -> tuple[str, ...]:
    """Return the attributes of all blocks and of the top of a spec."""
    found = [each.name for each in ROOT_ATTRIBUTES]
    found += [each.name for block in BLOCKS.values() for each in block.attributes]
    return tuple(dict.fromkeys(found))


def functions() -> tuple[str, ...]:
    """Return the functions of the language itself; those of Keras are not among them."""
    found = [each.name for table in FUNCTIONS.values() for each in table]
    found += [*MAKERS, *(each.name for each in MEASURES), *(each.name for each in TARGETS)]
    return tuple(dict.fromkeys(found))


def constants() -> tuple[str, ...]:
    """Return the words that stand for values: choices of attributes, selectors, targets and dtypes."""
    found = [word for block in BLOCKS.values() for each in block.attributes for word in each.type.choices]
    found += [*(each.name for each in SELECTORS), *(each.name for each in TARGETS), *DTYPES]
    return tuple(each for each in dict.fromkeys(found) if each not in LITERALS)


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

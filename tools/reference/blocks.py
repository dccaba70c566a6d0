"""The page of blocks and their attributes."""

from __future__ import annotations

from dsl.schema import BLOCKS, ROOT, ROOT_ATTRIBUTES, VERSION, Attribute, Block
from dsl.values import UNITS
from tools.reference import notes
from tools.reference.markdown import NOTICE, NOUNS, table, takes, written

INTRODUCTION = f"""\
# Blocks and attributes

A spec consists of blocks, in any order. All but `model` may be left out; training needs `data`, `update` and `train`
too. The language knows these names and no others: a name that is not here is an error that names the nearest one.

## At the top

Attributes outside of all blocks. This version of tfdeploy reads version {VERSION} of the language.

"""


def page() -> str:
    """Return the text of the page."""
    inner = {name for block in BLOCKS.values() for name in block.inner}
    order = [each for name in ROOT for each in (name, *BLOCKS[name].inner)]
    assert set(order) == {*BLOCKS}, "a block is neither at the top nor inside another"
    return "".join(
        [
            NOTICE,
            INTRODUCTION,
            _root(),
            *(_block(BLOCKS[name], is_inner=name in inner) for name in order),
            _units(),
        ]
    )


def _root() -> str:
    rows = [[f"`{each.name}`", takes(each.type), each.doc] for each in ROOT_ATTRIBUTES]
    return table(["name", "takes", "meaning"], rows)


def _block(block: Block, *, is_inner: bool) -> str:
    shown = f'{block.name} "name"' if block.label == "required" else block.name
    parts = [f"{'###' if is_inner else '##'} {block.name}\n\n`{shown} {{ ... }}`: {block.doc}.\n\n"]
    if block.name in notes.BLOCKS:
        parts.append(f"{notes.BLOCKS[block.name]}\n\n")
    if block.attributes:
        parts.append(
            table(
                ["attribute", "takes", "default", "meaning"], [_row(block, each) for each in block.attributes]
            )
        )
    return "".join(parts)


def _row(block: Block, attribute: Attribute) -> list[str]:
    key = f"{block.name}.{attribute.name}"
    return [
        f"`{attribute.name}`",
        _taken(attribute),
        _default(block, attribute, key),
        attribute.doc,
    ]


def _taken(attribute: Attribute) -> str:
    return "flow" if attribute.type.kind == "any" else takes(attribute.type)


def _default(block: Block, attribute: Attribute, key: str) -> str:
    if key in notes.DEFAULTS:
        return notes.DEFAULTS[key]
    value = block.default(attribute.name)
    assert value is not None or attribute.type.optional, f"say in notes.py what the default of {key} is"
    return f"`{written(value)}`"


def _units() -> str:
    rows = [
        [noun, ", ".join(f"`{unit}`" for unit, (measured, _) in UNITS.items() if measured == dimension)]
        for dimension, noun in NOUNS.items()
    ]
    said = (
        "## Units\n\nA quantity is a number and a unit, with or without a space between: `16GiB`, `16 GiB`. A quantity"
        " without its unit is an error.\n\n"
    )
    return said + table(["quantity", "units"], rows).rstrip("\n") + "\n"

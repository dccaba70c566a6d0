"""Put values of attributes into the text of a spec, of which all else stays as it is, comments included."""

from __future__ import annotations

from dsl import syntax

_INDENT = "  "


def with_value(tree: syntax.File, kind: str, name: str, value: str) -> str:
    """Return the text of a spec in which an attribute of a block has a value.

    A value that is there is replaced. Otherwise the attribute stands at the end of the block, which is added
    if there is none.

    Args:
        tree: The spec.
        kind: The kind of the block, such as `update`.
        name: The name of the attribute.
        value: The value as text.
    """
    text = tree.source.text
    blocks = syntax.blocks_in(tree.items, kind)
    if not blocks:
        return f"{text.rstrip()}\n\n{kind} {{\n{_INDENT}{name} = {value}\n}}\n"
    block = blocks[-1]
    for item in syntax.attributes_in(block.items, name):
        return text[: item.value.span.start] + value + text[item.value.span.end :]
    if "\n" not in text[block.span.start : block.span.end]:
        items = [text[each.span.start : each.span.end] for each in block.items]
        lines = "".join(f"{_INDENT}{each}\n" for each in (*items, f"{name} = {value}"))
        return text[: block.items[0].span.start].rstrip(" ") + f"\n{lines}}}" + text[block.span.end :]
    at = text.rindex("\n", 0, block.span.end) + 1
    return f"{text[:at]}{_INDENT}{name} = {value}\n{text[at:]}"

"""Put rules and values into the text of a spec, of which all else stays as it is, comments included."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dsl import syntax

_INDENT = "  "


def with_rules(tree: syntax.File, roles: Collection[str], rules: Sequence[str]) -> str:
    """Return the text of a spec with other rules for some roles.

    The new rules stand where the first of the old ones stood, or else at the end of the `place` block, which
    is added if there is none. A comment on the line of a rule that is removed stays.
    """
    text = tree.source.text
    blocks = syntax.blocks_in(tree.items, "place")
    if not blocks:
        return text.rstrip() + "\n\n" + _block(rules) if rules else text
    block = blocks[-1]
    entries = [each for each in block.items if isinstance(each, syntax.Entry)]
    kept = [each for each in entries if _role(each) not in roles]
    if "\n" not in text[block.span.start : block.span.end]:
        items = [text[each.span.start : each.span.end] for each in kept]
        return text[: block.span.start] + _block([*items, *rules]).rstrip() + text[block.span.end :]
    for entry in reversed(entries):
        if entry not in kept:
            first = all(_role(each) not in roles for each in entries[: entries.index(entry)])
            text = _replaced(text, entry.span.start, entry.span.end, rules if first else ())
    if len(kept) == len(entries) and rules:
        at = text.rindex("\n", 0, block.span.end) + 1
        text = text[:at] + "".join(f"{_INDENT}{rule}\n" for rule in rules) + text[at:]
    return text


def with_value(tree: syntax.File, kind: str, name: str, value: str) -> str:
    """Return the text of a spec in which an attribute of a block has a value.

    A value that is there is replaced. Otherwise the attribute stands at the end of the block, which is added
    if there is none.
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


def _role(entry: syntax.Entry) -> str:
    """Return the role that a rule is for."""
    return entry.span.text.partition("->")[0].partition("(")[0].strip()


def _block(rules: Sequence[str]) -> str:
    return "".join(("place {\n", *(f"{_INDENT}{rule}\n" for rule in rules), "}\n"))


def _replaced(text: str, start: int, end: int, rules: Sequence[str]) -> str:
    """Return a text with rules in place of the one from `start` to `end`, and without empty lines there."""
    begins, ends = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    before, after = text[begins:start], text[end:ends]
    if rules:
        indent = before[: len(before) - len(before.lstrip())]
        return text[:start] + f"\n{indent}".join(rules) + text[end:]
    if before.strip() or after.strip():
        return text[:start] + text[end:].lstrip(" \t")
    return text[:begins] + text[ends + 1 :]

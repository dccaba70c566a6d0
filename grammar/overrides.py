"""`--set PATH=VALUE`: replaces attributes and arguments in the syntax tree before names are looked up.

A path starts with a block, and with the name of the block if it has one (`devices.worker`, `layer.residual`,
`model.metrics`). Then comes an attribute, and after that the names of arguments in calls:
`update.optimizer.learning_rate`. A step of a flow is named by its function or by the `name` of its layer:
`data.train.shuffle.buffer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dsl import schema, syntax
from dsl.errors import names
from dsl.schema import ALTERNATIVES, BLOCKS, Function, Type
from dsl.schema.functions import function_at
from dsl.source import Source, Span
from dsl.suggest import nearest
from grammar.parsing.parser import parse_value
from grammar.reports import Reports

Items = tuple[syntax.Item, ...]
ANYTHING = Type("any")
NONE = "none"
QUOTES = ('"', "'")
"""What the value of a string may begin with: the language's own quote, and the one it says is wrong."""


def apply(items: Items, overrides: Sequence[tuple[str, str]], reports: Reports) -> Items:
    """Return the items with all overrides applied, and report paths and values that are not valid.

    A value also takes the place of what it excludes, as `steps` excludes `epochs`, unless that is given, too.
    """
    given = {path for path, _ in overrides}
    for path, value in overrides:
        override = _Override(path, value, given, reports)
        try:
            items = override.applied(items)
        except _UnknownPathError as wrong:
            override.report(wrong)
    return items


class _UnknownPathError(Exception):
    """Raised if part number `at` of a path does not exist; `known` are the names that do."""

    def __init__(self, at: int, known: Iterable[str]) -> None:
        super().__init__(at)
        self.at = at
        self.known = tuple(dict.fromkeys(known))  # `model` has a `loss` in the table and one in the spec


class _Override:
    """One `--set`."""

    def __init__(self, path: str, value: str, given: Collection[str], reports: Reports) -> None:
        self._parts = path.split(".")
        self._value = value
        self._given = given
        self._reports = reports
        self._source = Source("--set", f"{path}={value}")
        self._start = len(path) + 1
        self._value_span = Span(self._source, self._start, len(self._source.text))

    def report(self, wrong: _UnknownPathError) -> None:
        """Report the part of the path that leads nowhere."""
        near = nearest(self._parts[wrong.at], wrong.known)
        whole = (
            None if near is None else ".".join([*self._parts[: wrong.at], near, *self._parts[wrong.at + 1 :]])
        )
        self._reports.add(
            names.unknown_path(
                self._span(wrong.at),
                path=".".join(self._parts),
                near=whole,
                known=wrong.known,
                last=self._parts[-1],
            )
        )

    def _span(self, at: int) -> Span:
        start = sum(len(part) + 1 for part in self._parts[:at])
        return Span(self._source, start, start + len(self._parts[at]))

    # --- items

    def applied(self, items: Items) -> Items:
        """Return `items` with this override; raises _UnknownPathError."""
        kind = self._parts[0]
        if kind not in schema.ROOT or kind in {"place", "expect"}:
            raise _UnknownPathError(0, [each for each in schema.ROOT if each not in {"place", "expect"}])
        if kind == "layer":
            labels = [block.label for block in syntax.blocks_in(items, kind) if block.label]
            label = self._part(1, labels)
            if label not in labels:
                raise _UnknownPathError(1, labels)
            return self._in_blocks(items, kind, 2, label)
        if not syntax.blocks_in(items, kind):
            if kind in {"let", "model"}:
                raise _UnknownPathError(0, [block.kind for block in syntax.blocks_in(items)])
            span = self._span(0)
            items = (*items, syntax.Block(kind, span, span, span=span))
        return self._in_blocks(items, kind, 1)

    def _in_blocks(self, items: Items, kind: str, at: int, label: str | None = None) -> Items:
        """Go into the blocks of `kind`, or the one with a label."""
        return tuple(
            item.changed(items=self._in_block(item, at))
            if isinstance(item, syntax.Block) and item.kind == kind and label in {None, item.label}
            else item
            for item in items
        )

    def _part(self, at: int, known: Iterable[str]) -> str:
        if at >= len(self._parts):
            raise _UnknownPathError(len(self._parts) - 1, known)
        return self._parts[at]

    def _in_block(self, block: syntax.Block, at: int) -> Items:
        known = BLOCKS[block.kind]
        here = [item.name for item in syntax.attributes_in(block.items)]
        inner = syntax.blocks_in(block.items)
        into = [item.label or item.kind if item.kind == "job" else item.kind for item in inner]
        name = self._part(at, [*known.names, *here, *into])
        row = known.attribute(name)
        is_last = at + 1 == len(self._parts)
        if row is not None and is_last and self._value.strip() == NONE and not _takes_none(row.type):
            # an attribute that cannot be `none` gets its default
            return tuple(item for item in block.items if not _is(item, name))
        other = self._excluded(block.kind, name)
        if other is not None:
            block = block.changed(items=tuple(item for item in block.items if not _is(item, other)))
        if name in here:
            return tuple(
                self._in_attribute(item, known, at) if _is(item, name) else item for item in block.items
            )
        if row is not None:  # a block of the same name, `optimizer`, stands in place of the attribute
            kept = [item for item in block.items if not isinstance(item, syntax.Block) or item.kind != name]
            return (*kept, self._added(name, row.type, at))
        if name in into:
            chosen = inner[into.index(name)]
            changed = chosen.changed(items=self._in_block(chosen, at + 1))
            return tuple(changed if item is chosen else item for item in block.items)
        raise _UnknownPathError(at, [*known.names, *here, *into])

    def _excluded(self, block: str, name: str) -> str | None:
        """Return the attribute of the spec that cannot be beside one that is given, if there is one."""
        pair = ALTERNATIVES.get(block, ())
        if name not in pair:
            return None
        (other,) = (each for each in pair if each != name)
        return None if ".".join((*self._parts[:-1], other)) in self._given else other

    def _added(self, name: str, type: Type, at: int) -> syntax.Attribute:  # noqa: A002
        if at + 1 < len(self._parts):
            raise _UnknownPathError(at + 1, ())
        return syntax.Attribute(name, self._span(at), self._read(type), span=self._value_span)

    def _in_attribute(self, item: syntax.Item, known: schema.Block, at: int) -> syntax.Item:
        if not isinstance(item, syntax.Attribute):
            return item
        row = known.attribute(item.name)
        return item.changed(value=self._in_value(item.value, ANYTHING if row is None else row.type, at + 1))

    # --- values

    def _in_value(self, value: syntax.Expr, type: Type, at: int) -> syntax.Expr:  # noqa: A002
        """Return `value` with the part that the rest of the path leads to replaced."""
        if at == len(self._parts):
            return self._read(type)
        if isinstance(value, syntax.Call):
            return self._in_call(value, type, at)
        if isinstance(value, syntax.Flow):
            return self._in_flow(value, at)
        raise _UnknownPathError(at, ())

    def _in_flow(self, flow: syntax.Flow, at: int) -> syntax.Expr:
        parts = [flow.source, *flow.steps]
        calls = [part for part in parts if isinstance(part, syntax.Call)]
        known = [name for call in calls for name in _names(call)]
        name = self._parts[at]
        found = [call for call in calls if name in _names(call)]
        if len(found) != 1:
            raise _UnknownPathError(at, [each for each in known if known.count(each) == 1])
        changed = self._in_value(found[0], ANYTHING, at + 1)
        replaced = [changed if part is found[0] else part for part in parts]
        return flow.changed(source=replaced[0], steps=tuple(replaced[1:]))

    def _in_call(self, call: syntax.Call, type: Type, at: int) -> syntax.Expr:  # noqa: A002
        name = self._parts[at]
        function = _function(call, type)
        given = [each.name for each in call.arguments if each.name is not None]
        positional = [] if function is None else [each.name for each in function.positional]
        wanted = ANYTHING
        if function is not None:
            argument = function.argument(name)
            wanted = argument.type if argument is not None else function.rest or ANYTHING
        for number, each in enumerate(call.arguments):
            if each.name == name or (
                each.name is None and number < len(positional) and positional[number] == name
            ):
                changed = each.changed(value=self._in_value(each.value, wanted, at + 1))
                return call.changed(
                    arguments=(*call.arguments[:number], changed, *call.arguments[number + 1 :])
                )
        if function is not None and (function.argument(name) is not None or function.rest is not None):
            if at + 1 < len(self._parts):
                raise _UnknownPathError(at + 1, ())
            added = syntax.Argument(self._read(wanted), name, self._span(at), span=self._value_span)
            return call.changed(arguments=(*call.arguments, added))
        raise _UnknownPathError(at, given if function is None else [each.name for each in function.arguments])

    def _read(self, type: Type) -> syntax.Expr:  # noqa: A002
        """Read the value: literally if a string without quotes is wanted, else as an expression.

        Shells take quotes away or leave them, and a string with its quotes is the same string as without.
        """
        none = type.optional and self._value.strip() == NONE
        if type.kind == "str" and not none and not self._value.lstrip().startswith(QUOTES):
            return syntax.Text(self._value, span=self._value_span)
        read = parse_value(self._source, self._start, self._reports)
        return syntax.Broken(span=self._value_span) if read is None else read


def _is(item: syntax.Item, name: str) -> bool:
    return isinstance(item, syntax.Attribute) and item.name == name


def _takes_none(type: Type) -> bool:  # noqa: A002
    return type.optional or NONE in type.words or any(map(_takes_none, type.options))


def _names(call: syntax.Call) -> list[str]:
    """Return what a path may call a step: its function, or the name it was given."""
    own = [
        each.value.value
        for each in call.arguments
        if each.name == "name" and isinstance(each.value, syntax.Text)
    ]
    return [call.callee.name, *own]


def _function(call: syntax.Call, type: Type) -> Function | None:  # noqa: A002
    """Return the function that `call` calls if `type` is wanted."""
    name = call.callee.name.removeprefix("applications.")
    return function_at(type, name, ("source", "transform", "feature"))


# --- what a spec sets, by these paths ---------------------------------------------------------------------


def settings(items: Items) -> dict[str, str]:
    """Return the texts of all values of a spec by the paths that `--set` takes for them.

    Steps of the same name in one flow are told apart by numbers, which `--set` does not take. Rules of
    placement and conditions, which have no paths, are together under the name of their block.
    """
    found: dict[str, str] = {}
    for block in syntax.blocks_in(items):
        _add_block(
            found, ".".join([block.kind, *([block.label or ""] if block.kind == "layer" else [])]), block
        )
    return found


def _add_block(found: dict[str, str], path: str, block: syntax.Block) -> None:
    known = BLOCKS.get(block.kind)
    for item in block.items:
        if isinstance(item, syntax.Block):
            _add_block(found, f"{path}.{(item.kind == 'job' and item.label) or item.kind}", item)
        elif isinstance(item, syntax.Attribute):
            row = known.attribute(item.name) if known is not None else None
            _add_value(found, f"{path}.{item.name}", item.value, ANYTHING if row is None else row.type)
        else:
            found[path] = "; ".join([*filter(None, [found.get(path)]), _said(item)])


def _add_value(found: dict[str, str], path: str, value: syntax.Expr, type: Type) -> None:  # noqa: A002
    if isinstance(value, syntax.Flow):
        parts = (value.source, *value.steps)
        names = [_names(each)[-1] if isinstance(each, syntax.Call) else _said(each) for each in parts]
        found[path] = " -> ".join(names)
        for at, (name, each) in enumerate(zip(names, parts, strict=True)):
            if isinstance(each, syntax.Call):
                again = f"[{names[:at].count(name)}]" if names.count(name) > 1 else ""
                _add_arguments(found, f"{path}.{name}{again}", each, ANYTHING)
    elif isinstance(value, syntax.Call):
        found[path] = value.callee.name if value.arguments else _said(value)
        _add_arguments(found, path, value, type)
    else:
        found[path] = _said(value)


def _add_arguments(found: dict[str, str], path: str, call: syntax.Call, type: Type) -> None:  # noqa: A002
    function = _function(call, type)
    names = [] if function is None else [each.name for each in function.positional]
    for at, each in enumerate(call.arguments):
        name = each.name or (names[at] if at < len(names) else str(at))
        _add_value(found, f"{path}.{name}", each.value, ANYTHING)
    for each in call.given:
        _add_value(found, f"{path}.{each.name or 'given'}", each.value, ANYTHING)


def _said(part: syntax.Node) -> str:
    return " ".join(part.span.text.split())

"""Parts of a model that occur several times become `layer` blocks, with parameters where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import define, evolve, frozen

from dsl import ir
from dsl.schema import signatures
from tfdeploy.onramp.body import Body, Node
from tfdeploy.onramp.graph import RESERVED, free_name

LONGEST = 60
"""How many nodes a block may have."""
MOST_PARAMETERS = 5
OF_A_BLOCK = 4
"""The lines that a block takes beside its nodes and its parameters."""
MOST_INPUTS = 2
LOST_NAME = 0.5
"""How many lines the name of a layer is worth."""


def fold(bodies: list[Body], taken: set[str]) -> None:
    """Replace parts that occur several times by uses of new bodies, which are added to the list."""
    names = {*taken, *RESERVED, *(each.name for each in bodies)}
    while True:
        found = (each for each in _groups(bodies) if each.worth > 0)
        best = max(found, key=lambda each: (len(each.windows[0].inputs) == 1, each.worth), default=None)
        if best is None:
            break
        bodies.append(best.replaced(names))
    for body in bodies:
        body.nodes = list(_repeated(body))


def _common(names: Sequence[str]) -> str:
    """Return what all names begin with."""
    first, last = min(names), max(names)
    end = next((at for at, each in enumerate(first) if last[at : at + 1] != each), len(first))
    return first[:end]


@frozen(slots=False)
class _Window:
    """Nodes of a body that only its last value leaves: from `first` to the one before `last`."""

    body: Body
    first: int
    last: int
    inputs: tuple[int, ...]

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes, as they were when the window was found."""
        return self.body.nodes[self.first : self.last]

    @cached_property
    def prefix(self) -> str:
        """What the names of the layers begin with."""
        names = [each.name for each in self.nodes if each.chosen]
        if len(names) < MOST_INPUTS:
            return ""
        common = _common(names)
        whole = all(name[len(common) :][:1] in {"", "_", "/"} for name in names)
        return common if whole else common.rpartition("_")[0]


@define(eq=False)
class _Group:
    """Windows that differ in numbers alone."""

    windows: list[_Window]
    columns: dict[tuple[int, str], tuple[Any, ...]]
    worth: float = 0.0

    def replaced(self, names: set[str]) -> Body:
        """Put uses of a new block in the place of the windows, and return the block."""
        first = self.windows[0]
        prefixes = [each.prefix for each in self.windows]
        word = re.sub(r"_+", "_", re.sub(r"\d+", "", prefixes[0])).strip("_")
        body = Body(free_name(word or "part", names), dict(zip(first.inputs, ("x", "y"), strict=False)))
        parameters: dict[str, tuple[Any, ...]] = {}
        written = {
            place: self.parameter(column, place[1], parameters) for place, column in self.columns.items()
        }
        body.parameters = tuple(
            ir.LayerParameter(name, "float" if any(isinstance(each, float) for each in column) else "int")
            for name, column in parameters.items()
        )
        for at, node in enumerate(first.nodes):
            rests = self.names(at)
            name = rests.pop() if len(rests) == 1 else ""
            changed = {key: each for (place, key), each in written.items() if place == at}
            body.nodes.append(_with(node, changed, name))
        body.outputs = [first.nodes[-1].outputs[0]]
        for at in sorted(range(len(self.windows)), key=lambda at: -self.windows[at].first):
            window, prefix = self.windows[at], prefixes[at]
            given = [column[at] for column in parameters.values()]
            more = dict(zip([*parameters][1:], given[1:], strict=True))
            named: dict[str, ir.Value] = {"name": prefix} if prefix not in {"", body.name} else {}
            call = ir.Call(body.name, tuple(given[:1]), {**more, **named})
            use = Node(
                "block",
                call,
                window.inputs,
                window.nodes[-1].outputs,
                len(window.inputs),
                name=prefix or body.name,
                chosen=bool(prefix),
            )
            window.body.nodes[window.first : window.last] = [use]
        return body

    def names(self, at: int) -> set[str]:
        """Return the names that a node has in the windows, behind what the names of each begin with."""
        pairs = ((each.nodes[at], each.prefix) for each in self.windows)
        return {node.name[len(prefix) :].strip("_/") if node.chosen else "" for node, prefix in pairs}

    def lost_names(self) -> int:
        """Return how many layers would not keep their names."""
        length = len(self.windows[0].nodes)
        lost = sum(len(self.names(at)) > 1 for at in range(length)) * len(self.windows)
        prefixes = [each.prefix for each in self.windows if each.prefix]
        return lost + length * (len(prefixes) - len(set(prefixes)))

    def parameter(self, column: tuple[Any, ...], name: str, known: dict[str, tuple[Any, ...]]) -> ir.Value:
        """Return a parameter that has the numbers of a column, or is a whole part of them."""
        for other, numbers in known.items():
            if numbers == column:
                return ir.Parameter(other)
            times = _times(column, numbers)
            if times is not None:
                return ir.Arithmetic("*", times, ir.Parameter(other))
        own = free_name(name if not name.isdigit() else "number", {*known, *RESERVED, "x", "y"})
        known[own] = column
        return ir.Parameter(own)


def _times(column: Sequence[Any], numbers: Sequence[Any]) -> int | None:
    """Return by what whole number some numbers have to be multiplied to give others."""
    if not all(type(each) is int for each in (*column, *numbers)) or not all(numbers):
        return None
    times = {one / other for one, other in zip(column, numbers, strict=True)}
    only = times.pop() if len(times) == 1 else 0.5
    return int(only) if only > 1 and only == int(only) else None


def _with(node: Node, changed: Mapping[str, ir.Value], name: str) -> Node:
    """Return a node with other arguments, and the name that it has in a block."""
    places = _positions(node)
    args = tuple(changed.get(places[at], each) for at, each in enumerate(node.call.args))
    kwargs = {key: each for key, each in node.call.kwargs.items() if key != "name"}
    kwargs |= {key: each for key, each in changed.items() if key not in places[: len(args)]}
    kwargs |= {"name": name} if name else {}
    word = name or (node.call.name if node.kind == "operation" else re.sub(r"\W", "", node.call.name).lower())
    return evolve(node, call=ir.Call(node.call.name, args, kwargs), name=word, chosen=bool(name))


def _positions(node: Node) -> list[str]:
    """Return the names of the arguments by position."""
    signature = signatures.find("layer", node.call.name) if node.kind == "layer" else None
    own = [] if signature is None else [each.name for each in signature.positional]
    return [*own, *(str(at) for at in range(len(own), len(node.call.args)))]


def _arguments(node: Node) -> dict[str, Any]:
    """Return all arguments of a node by name, with those numbers that Keras gives by itself."""
    found = dict(zip(_positions(node), node.call.args, strict=False)) | dict(node.call.kwargs)
    found.pop("name", None)
    signature = signatures.find("layer", node.call.name) if node.kind == "layer" else None
    for each in () if signature is None else signature.arguments:
        default = each.default
        if isinstance(default, tuple) and default and len(set(default)) == 1:
            default = default[0]
        if each.name not in found and type(default) in {int, float}:
            found[each.name] = default
    return found


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} or isinstance(value, ir.Parameter | ir.Arithmetic)


def _groups(bodies: Sequence[Body]) -> Iterator[_Group]:
    """Yield groups of windows that could become a block, with what that would be worth in lines."""
    found: dict[tuple[Any, ...], list[_Window]] = {}
    arguments: dict[int, dict[str, Any]] = {}
    for body in bodies:
        for node in body.nodes:
            arguments[id(node)] = _arguments(node)
        tokens = [
            [_token(each, arguments[id(each)], exact) for each in body.nodes] for exact in (False, True)
        ]
        for window in _windows(body):
            places = {value: at for at, node in enumerate(window.nodes) for value in node.outputs} | {
                value: -1 - at for at, value in enumerate(window.inputs)
            }
            wired = tuple(tuple(places[each] for each in node.inputs) for node in window.nodes)
            for exact in (0, 1):
                key = (tuple(tokens[exact][window.first : window.last]), wired)
                found.setdefault(key, []).append(window)
    for windows in found.values():
        chosen = _apart(windows)
        if len(chosen) > 1:
            group = _Group(chosen, _columns(chosen, arguments))
            group.worth = _worth(group)
            yield group


def _windows(body: Body) -> Iterator[_Window]:
    """Yield the windows of a body."""
    made = {value: at for at, node in enumerate(body.nodes) for value in node.outputs}
    last = {value: at for at, node in enumerate(body.nodes) for value in node.inputs}
    last |= dict.fromkeys(body.outputs, len(body.nodes))
    for first in range(len(body.nodes)):
        inputs: list[int] = []
        reach = 0
        for at in range(first, min(len(body.nodes), first + LONGEST)):
            node = body.nodes[at]
            if node.kind == "shared" or len(node.outputs) != 1:
                break
            inputs += [
                each
                for each in dict.fromkeys(node.inputs)
                if made.get(each, -1) < first and each not in inputs
            ]
            if len(inputs) > MOST_INPUTS:
                break
            if reach <= at and at > first + 1 and inputs:
                yield _Window(body, first, at + 1, tuple(inputs))
            reach = max(reach, last.get(node.outputs[0], 0))


def _token(node: Node, arguments: Mapping[str, Any], exact: bool) -> tuple[Any, ...]:
    """Return what two nodes have in common if they differ in numbers alone, or not even in these."""
    said = tuple(
        sorted(
            (key, "#" if _is_number(each) and not exact else repr(each)) for key, each in arguments.items()
        )
    )
    numbers = node.kind in {"layer", "block"}
    return (node.kind, node.call.name, said if numbers else repr(node.call), repr(node.given), node.sources)


def _apart(windows: Sequence[_Window]) -> list[_Window]:
    """Return windows that do not overlap, from the first on."""
    chosen: list[_Window] = []
    for each in windows:
        before = chosen[-1] if chosen else None
        if before is None or before.body is not each.body or before.last <= each.first:
            chosen.append(each)
    return chosen


def _columns(
    windows: Sequence[_Window], arguments: Mapping[int, Mapping[str, Any]]
) -> dict[tuple[int, str], tuple[Any, ...]]:
    """Return the arguments in which windows differ, or that are parameters of blocks around them."""
    found = {}
    rows = [each.nodes for each in windows]
    for at, node in enumerate(rows[0]):
        for key, each in arguments[id(node)].items():
            column = tuple(arguments[id(row[at])][key] for row in rows)
            of_another = any(isinstance(one, ir.Parameter | ir.Arithmetic) for one in column)
            if of_another or (_is_number(each) and len(set(map(repr, column))) > 1):
                found[at, key] = column
    return found


def _worth(group: _Group) -> float:
    """Return how many lines a block saves."""
    length = len(group.windows[0].nodes)
    known: dict[str, tuple[Any, ...]] = {}
    for (_, name), column in group.columns.items():
        group.parameter(column, name, known)
    if len(known) > MOST_PARAMETERS:
        return -1.0
    runs = 0
    for at, window in enumerate(group.windows):
        before = group.windows[at - 1] if at else None
        joined = before is not None and before.body is window.body and before.last == window.first
        same = at > 0 and all(column[at] == column[at - 1] for column in known.values())
        runs += not (joined and same and len(window.inputs) == 1)
    saved = length * len(group.windows) - runs - length - OF_A_BLOCK - len(known)
    return saved - LOST_NAME * group.lost_names()


def _repeated(body: Body) -> Iterator[Node]:
    """Yield the nodes of a body; equal blocks in a row become one that is repeated."""
    uses = body.uses()
    waiting: Node | None = None
    for node in body.nodes:
        if waiting is not None and _follows(node, waiting, uses):
            name = _common([waiting.name, node.name]).rstrip("0123456789").rstrip("_")
            kwargs = {key: each for key, each in waiting.call.kwargs.items() if key != "name"}
            kwargs |= {"name": name} if name not in {"", waiting.call.name} and waiting.chosen else {}
            call = ir.Call(waiting.call.name, waiting.call.args, kwargs)
            waiting = evolve(
                waiting, call=call, outputs=node.outputs, count=waiting.count + 1, name=name or node.name
            )
            continue
        if waiting is not None:
            yield waiting
        waiting = node
    if waiting is not None:
        yield waiting


def _follows(node: Node, before: Node, uses: Mapping[int, int]) -> bool:
    """Whether a block is the same as the one before it, and takes what that gives and nothing else does."""
    without = [
        {key: each for key, each in one.call.kwargs.items() if key != "name"} for one in (node, before)
    ]
    return (
        node.kind == before.kind == "block"
        and (node.call.name, node.call.args) == (before.call.name, before.call.args)
        and without[0] == without[1]
        and node.inputs == before.outputs
        and uses[before.outputs[0]] == 1
    )

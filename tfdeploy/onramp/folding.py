"""Parts of a model that occur several times become `layer` blocks, with parameters where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import define, evolve, frozen

from compiler.model.elaborate import snake_case
from dsl import ir
from dsl.schema import signatures
from tfdeploy.onramp.graph import RESERVED, Body, Node, free_name, unnamed

LONGEST = 60
"""How many nodes a block may have."""
MOST_PARAMETERS = 5
OF_A_BLOCK = 4
"""The lines that a block takes beside its nodes and its parameters."""
MOST_INPUTS = 2
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
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
        bodies.append(best.replaced(names, bodies))
    for body in bodies:
        body.nodes = [_by_place(each) for each in _repeated(body)]


def _by_place(node: Node) -> Node:
    """Return a node whose first argument is given by position if it is that of a block."""
    first = next(iter(node.call.kwargs), "name")
    if node.kind != "block" or node.call.args or first in {"name", "trainable"}:
        return node
    more = {key: each for key, each in node.call.kwargs.items() if key != first}
    return evolve(node, call=ir.Call(node.call.name, (node.call.kwargs[first],), more))


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
        return common if whole else re.sub(r"(^|[_/])[^_/]*$", "", common)


@define(eq=False)
class _Group:
    """Windows that differ in numbers alone."""

    windows: list[_Window]
    columns: dict[tuple[int, str], tuple[Any, ...]]
    worth: float = 0.0

    def replaced(self, names: set[str], others: Sequence[Body]) -> Body:
        """Put uses of a new block in the place of the windows, and return the block."""
        first = self.windows[0]
        prefixes = [each.prefix for each in self.windows]
        body = Body("", dict(zip(first.inputs, ("x", "y"), strict=False)))
        parameters, written = self.parameters(named=True)
        body.parameters = tuple(
            ir.LayerParameter(name, self.type_of(column)) for name, column in parameters.items()
        )
        for at, node in enumerate(first.nodes):
            rests = self.names(at)
            name = rests.pop() if len(rests) == 1 else ""
            changed = {key: each for (place, key), each in written.items() if place == at}
            body.nodes.append(_with(node, changed, name))
        body.outputs = [first.nodes[-1].outputs[0]]
        body.name = _block_name(re.sub(r"\d+", "_", prefixes[0]), body, others, names)
        for at in sorted(range(len(self.windows)), key=lambda at: -self.windows[at].first):
            window, prefix = self.windows[at], prefixes[at]
            given = {name: column[at] for name, column in parameters.items()}
            named: dict[str, ir.Value] = {"name": prefix} if prefix not in {"", body.name} else {}
            call = ir.Call(body.name, (), {**given, **named})
            use = Node(
                "block",
                call,
                window.inputs,
                window.nodes[-1].outputs,
                len(window.inputs),
                name=prefix or body.nodes[-1].name,
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

    def parameters(
        self, *, named: bool = False
    ) -> tuple[dict[str, tuple[Any, ...]], dict[tuple[int, str], ir.Value]]:
        """Return the numbers of each parameter, and what is written for each column: one, or a product.

        Args:
            named: Whether parameters are called what a person would call them; else by numbers.
        """
        known: dict[tuple[Any, ...], tuple[int, str]] = {}
        multiples: dict[tuple[int, str], tuple[int, tuple[Any, ...]]] = {}
        for place, column in sorted(self.columns.items(), key=lambda each: _size(each[1])):
            found = ((_times(column, other), other) for other in known)
            multiples[place] = next(((times, other) for times, other in found if times), (1, column))
            known.setdefault(multiples[place][1], place)
        first = sorted(
            (
                (min((at for at in self.columns if multiples[at] == (1, each)), key=self._rank), each)
                for each in known
            ),
            key=lambda each: self._rank(each[0]),
        )
        words = self._words([place for place, _ in first]) if named else map(str, range(len(first)))
        names = {column: name for name, (_, column) in zip(words, first, strict=True)}
        written: dict[tuple[int, str], ir.Value] = {
            place: ir.Parameter(names[column])
            if times == 1
            else ir.Arithmetic("*", times, ir.Parameter(names[column]))
            for place, (times, column) in multiples.items()
        }
        return {names[column]: column for _, column in first}, written

    def type_of(self, column: Sequence[Any]) -> str:
        """Return the type of a parameter that has some values, which may be parameters of bodies."""
        types = set()
        for window, value in zip(self.windows, column, strict=True):
            own = {each.name: each.type for each in window.body.parameters}
            if isinstance(value, ir.Parameter):
                types.add(own[value.name])
            else:
                types.add("shape" if isinstance(value, tuple) else type(value).__name__)
        return next((each for each in ("shape", "float") if each in types), "int")

    def _rank(self, place: tuple[int, str]) -> tuple[int, int, int]:
        """Return what puts the arguments first that a layer has first, such as numbers of filters."""
        at, key = place
        node = self.windows[0].nodes[at]
        names = _positions(node) if node.kind == "layer" else [*node.call.kwargs]
        return "." in key, names.index(key.partition(".")[0]) if key in names else len(names), at

    def _words(self, places: Sequence[tuple[int, str]]) -> list[str]:
        """Return names for parameters: that of the argument, behind that of its layer if several have it."""
        arguments = [key.partition(".")[0] for _, key in places]
        arguments = [each if not each.isdigit() else "number" for each in arguments]
        taken = {*RESERVED, "x", "y"}
        found = []
        for at, (place, _) in enumerate(places):
            argument, names = arguments[at], self.names(place)
            word = re.sub(r"\W", "_", names.pop()) if len(names) == 1 else ""
            if arguments.count(argument) == 1:
                word = argument
            elif word and not re.search(r"\d_|^\d", word):
                word = f"{word}_{argument}"
            else:
                word = f"{ORDINALS[arguments[:at].count(argument)]}_{argument}"
            found.append(free_name(word, taken))
        return found


def _size(column: Sequence[Any]) -> tuple[bool, float]:
    """Return what puts columns of smaller numbers first, of which others may be multiples."""
    plain = all(type(each) in {int, float} for each in column)
    return (not plain, float(sum(column)) if plain else 0.0)


MERGED = {"Add": "residual", "Concatenate": "branches", "add": "residual", "concatenate": "branches"}


def _block_name(prefix: str, body: Body, others: Sequence[Body], names: set[str]) -> str:
    """Return a name for a block: what its layers begin with, else what it ends with or mainly is.

    A second block of a name says which layer it has that the first lacks.
    """
    word = re.sub(r"[_/]+", "_", prefix).strip("_")
    if not word:
        kinds = [
            re.sub(r"_?\dd$", "", snake_case(each.call.name)) for each in body.nodes if each.kind == "layer"
        ]
        kinds = [each for each in kinds if each not in {"activation", "zero_padding", "re_lu"}]
        word = MERGED.get(body.nodes[-1].call.name) or next(iter(kinds), "part")
    first = next((each for each in others if each.name == word), None)
    if first is not None:
        own = {*(each.name for each in first.nodes), *(each.name for each in first.parameters)}
        chosen = [each.name for each in body.nodes if each.chosen]
        more = [each for each in chosen if each not in own]
        more += [found[0] for each in chosen[:1] if (found := re.match("[A-Za-z]+", each))]
        more += [each.name for each in body.parameters if each.name not in own]
        word = f"{word}_{more[0]}" if more else word
    return free_name(word, names)


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
    args = tuple(_changed(places[at], each, changed) for at, each in enumerate(node.call.args))
    kwargs = {key: _changed(key, each, changed) for key, each in unnamed(node.call).items()}
    known = {*places[: len(args)], *kwargs}
    kwargs |= {key: each for key, each in changed.items() if key.partition(".")[0] not in known}
    kwargs |= {"name": name} if name else {}
    word = name or (
        node.call.name if node.kind == "operation" else snake_case(node.call.name.rpartition(".")[2])
    )
    return evolve(node, call=ir.Call(node.call.name, args, kwargs), name=word, chosen=bool(name))


def _changed(key: str, value: Any, changed: Mapping[str, ir.Value]) -> Any:
    """Return an argument with what is changed of it: the whole, or numbers of a list."""
    if key in changed or not isinstance(value, tuple):
        return changed.get(key, value)
    return tuple(changed.get(f"{key}.{at}", each) for at, each in enumerate(value))


def _positions(node: Node) -> list[str]:
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


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(map(_is_number, value))


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
    said = tuple(sorted((key, repr(each) if exact else _kind(each)) for key, each in arguments.items()))
    numbers = node.kind in {"layer", "block", "python"}
    return (node.kind, node.call.name, said if numbers else repr(node.call), repr(node.given), node.sources)


def _kind(value: Any) -> str:
    """Return what values have in common that differ in numbers alone."""
    if _is_number(value):
        return "#"
    return "#" * len(value) + "," if _are_numbers(value) else repr(value)


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
    found: dict[tuple[int, str], tuple[Any, ...]] = {}
    rows = [each.nodes for each in windows]
    for at, node in enumerate(rows[0]):
        for key, each in arguments[id(node)].items():
            column = tuple(arguments[id(row[at])][key] for row in rows)
            parts = (
                {f"{key}.{place}": part for place, part in enumerate(zip(*column, strict=True))}
                if _are_numbers(each)
                else {}
            )
            changing = {part: numbers for part, numbers in parts.items() if _changes(numbers)}
            if len(changing) == 1:
                found |= {(at, part): numbers for part, numbers in changing.items()}
            elif changing or (_is_number(each) and _changes(column)):
                found[at, key] = column
    return found


def _changes(column: Sequence[Any]) -> bool:
    """Whether numbers differ, or are those of blocks around them."""
    return len(set(map(repr, column))) > 1 or isinstance(column[0], ir.Parameter | ir.Arithmetic)


def _worth(group: _Group) -> float:
    """Return how many lines a block saves."""
    length = len(group.windows[0].nodes)
    if len(group.windows[0].inputs) > 1 and len({bool(each.prefix) for each in group.windows}) > 1:
        return -1.0  # some are a part of their own, and others a piece of something
    known, _ = group.parameters()
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
            kwargs = unnamed(waiting.call)
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
    return (
        node.kind == before.kind == "block"
        and (node.call.name, node.call.args) == (before.call.name, before.call.args)
        and unnamed(node.call) == unnamed(before.call)
        and node.inputs == before.outputs
        and uses[before.outputs[0]] == 1
    )

"""What the language takes at a place, such as a value of a type or a layer, and what the spec has of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, TypeAlias

from attrs import evolve, frozen

from dsl import schema, syntax
from dsl.ir import SPLITS
from dsl.schema import Argument, Function, Type
from dsl.schema import types as kinds
from dsl.schema.functions import (
    INPUT,
    PARAMETER,
    PARAMETER_TYPES,
    REPEAT,
    SHARED,
    function_at,
    step_function,
    weight_function,
)
from grammar.cursor import Around, Cursor, LineToken
from grammar.lower.devices import KINDS
from grammar.lower.network import flows
from grammar.lower.network.operations import PREFIX
from tfdeploy.lsp.names import Names


@frozen
class Devices:
    """The devices of one machine, or of each task of a job."""

    job: str | None  # the name of the job, or None for the machine itself
    tasks: int | None  # how many tasks the job has, if that is a plain number
    # How many devices of each kind there are, or None if this is not a plain number.
    counts: dict[str, int | None]


def layer_functions(trees: Sequence[syntax.File]) -> dict[str, Function]:
    """Return the layer blocks of a spec as functions, by their names."""
    blocks = [block for tree in trees for block in syntax.blocks_in(tree.items, "layer")]
    return {block.label: _function(block, block.label) for block in blocks if block.label is not None}


def _function(block: syntax.Block, name: str) -> Function:
    written = map(_parameter, syntax.attributes_in(block.items))
    arguments = [each for each in written if each is not None]
    if all(each.name != "name" for each in arguments):
        arguments.append(Argument("name", Type("str"), "the name of the layer"))
    return Function(name, tuple(arguments), doc="a layer block of this spec")


def _parameter(item: syntax.Attribute) -> Argument | None:
    call = item.value
    if not isinstance(call, syntax.Call) or call.callee.name != "parameter" or not call.arguments:
        return None
    kind = call.arguments[0].value
    name = kind.bare if isinstance(kind, syntax.Path) else None
    type_ = PARAMETER_TYPES.get(name or "", Type("any"))
    default = call.arguments[1].value if len(call.arguments) > 1 else None
    value = default.value if isinstance(default, syntax.Number | syntax.Text | syntax.Constant) else None
    return Argument(item.name, type_, default=value, required=default is None)


def devices_of(trees: Sequence[syntax.File], names: Names) -> tuple[Devices, ...]:
    """Return the devices that a spec declares: those of the machine, and those of each job."""
    found = []
    for block in (each for tree in trees for each in syntax.blocks_in(tree.items, "devices")):
        jobs = [each for each in syntax.blocks_in(block.items) if each.label]
        found += [_devices(each, each.label, names) for each in jobs] or [_devices(block, None, names)]
    return tuple(found)


def _devices(block: syntax.Block, job: str | None, names: Names) -> Devices:
    written = {item.name: item.value for item in syntax.attributes_in(block.items)}
    counts = {kind: _number(written[kind], names) for kind in KINDS if kind in written}
    hosts = written.get("hosts")
    tasks = _number(written["tasks"], names) if "tasks" in written else None
    if isinstance(hosts, syntax.List):
        tasks = len(hosts.items)
    return Devices(job, tasks, counts or {"cpu": 1})


def _number(value: syntax.Expr, names: Names) -> int | None:
    """Return a whole number that is written out, or that is the value of a constant."""
    if isinstance(value, syntax.Path) and value.bare is not None:
        value = next(
            (
                each.item.value
                for each in names.uses
                if each.is_definition
                and each.symbol.kind == "constant"
                and each.symbol.name == value.bare
                and isinstance(each.item, syntax.Attribute)
            ),
            value,
        )
    return int(value.value) if isinstance(value, syntax.Number) and value.unit is None else None


def tensors_of_examples(names: Names) -> tuple[str, ...]:
    """Return the names of the tensors of the examples: those that the data names, and the model's inputs."""
    found = [each.symbol.name for each in names.uses if each.symbol.kind in {"example", "input"}]
    return tuple(dict.fromkeys(found))


def attributes_of(trees: Sequence[syntax.File], kind: str) -> frozenset[str]:
    """Return the names of the attributes and inner blocks that blocks of a kind have already."""
    found: set[str] = set()
    nodes = (node for tree in trees for item in tree.items for node in syntax.within(item))
    for block in syntax.blocks_in(nodes, kind):
        found |= {each.kind for each in syntax.blocks_in(block.items)}
        found |= {each.name for each in syntax.attributes_in(block.items)}
    return frozenset(found)


def blocks_of(trees: Sequence[syntax.File]) -> frozenset[str]:
    """Return the kinds of the blocks at the top of a spec, without `layer`, of which there may be several."""
    kinds = {block.kind for tree in trees for block in syntax.blocks_in(tree.items)}
    return frozenset(kinds & set(schema.ROOT)) - {"layer"}


Want: TypeAlias = Literal[
    "nothing",
    "item",
    "value",
    "constant",
    "binding",
    "tensor",
    "layer",
    "shared",
    "loss",
    "metric",
    "source",
    "transform",
    "selector",
    "target",
    "measure",
    "index",
]

_ENDS = frozenset({"EQUALS", "ARROW", "COMPARE", "PLUS", "MINUS", "STAR", "SLASH"})


@frozen
class Slot:
    """What may stand at a place."""

    want: Want
    type: Type | None = None
    block: str = ""
    name: str = ""  # the name before an index, or the attribute or argument whose value is wanted
    function: Function | None = None  # the function of the call around, if a new argument may begin here
    given: tuple[str, ...] = ()  # the names of the arguments of that call that are there already
    doc: str = ""
    steps: Want = "layer"  # what follows an arrow in brackets at the place


NOTHING = Slot("nothing")


def slot_at(cursor: Cursor, layers: Mapping[str, Function], level: int = 0) -> Slot:
    """Return what may stand at a place.

    Args:
        layers: The layer blocks of the spec, as functions.
        level: How many of the brackets around are left out; then the place is that of what they belong to.
    """
    item = cursor.item if level == 0 else cursor.around[level - 1].item
    if level >= len(cursor.around):
        return _top(item)
    around = cursor.around[level]
    if around.shape == "block":
        return _in_block(around.name, item)
    if around.shape == "index":
        return Slot("index", name=around.name)
    outer = slot_at(cursor, layers, level + 1)
    if around.shape == "call":
        return _in_call(around, item, outer, layers)
    if around.shape == "list":
        outer = _in_list(outer)
    return evolve(outer, function=None) if not item else _after(item, outer)


def function_around(cursor: Cursor, layers: Mapping[str, Function], level: int) -> Function | None:
    """Return the function of the call `cursor.around[level]`, or None if it is not known."""
    around = cursor.around[level]
    outer = slot_at(cursor, layers, level + 1)
    return function_of(around.name, outer, layers)


def function_of(name: str, slot: Slot, layers: Mapping[str, Function]) -> Function | None:
    """Return the function that a name means at a place, or None if there is none of this name."""
    if name.startswith(PREFIX):
        return function_at(kinds.keras("operation"), name.removeprefix(PREFIX))
    match slot.want:
        case "layer" | "shared":
            return _layer(name, layers)
        case "loss" | "metric":
            return function_at(kinds.keras(slot.want), name)
        case "source" | "transform":
            return schema.function(slot.want, name)
        case "value" if slot.type is not None:
            return function_at(slot.type, name) if slot.type.kind in {"call", "either", "keras"} else None
    return _functions().get(slot.block if slot.want == "item" else slot.want, {}).get(name)


def _top(item: tuple[LineToken, ...]) -> Slot:
    if not item:
        return Slot("item")
    row = next((each for each in schema.ROOT_ATTRIBUTES if each.name == item[0].text), None)
    if row is not None and item[-1].kind == "EQUALS":
        return Slot("value", row.type, name=row.name, doc=row.doc)
    return NOTHING


_ONE_KIND = {
    "expect": Slot("constant"),
    "let": Slot("constant"),
    "optimizer": Slot("value", kinds.keras("optimizer"), doc="the optimizer of the weights that match"),
}
"""What stands behind every name of a block in which all names have values of one kind."""


def _in_block(kind: str, item: tuple[LineToken, ...]) -> Slot:
    if not item:
        return Slot("item", block=kind)
    name, last = item[0].text, item[-1].kind
    if last not in _ENDS and item[-1].text != "->":
        return NOTHING
    if kind in {"model", "layer", "metrics", "output"}:
        return _in_model(kind, name, last)
    if kind == "place":
        return Slot("target" if last == "ARROW" else "selector")
    if kind == "data" and name in SPLITS:
        return Slot("transform" if last == "ARROW" else "source")
    block = schema.BLOCKS.get(kind)
    row = None if block is None else block.attribute(name)
    found = NOTHING if row is None else Slot("value", row.type, kind, name, doc=row.doc)
    return _ONE_KIND.get(kind, found)


def _in_model(kind: str, name: str, last: str) -> Slot:
    steps: Want = "metric" if kind == "metrics" else "loss" if (kind, name) == ("model", "loss") else "layer"
    if last == "ARROW":
        return Slot(steps)
    row = schema.BLOCKS[kind].attribute(name) if kind in schema.BLOCKS else None
    if row is not None and row.type.kind != "any":
        return Slot("value", row.type, kind, name, doc=row.doc)
    is_binding = last == "EQUALS" and row is None and kind in {"model", "layer"}
    return Slot("binding" if is_binding else "tensor", block=kind, steps=steps)


def _after(item: tuple[LineToken, ...], outer: Slot) -> Slot:
    """Return what follows an operator or arrow within an argument or round brackets."""
    if item[-1].kind == "ARROW":
        return Slot(outer.steps)
    return evolve(outer, function=None) if item[-1].kind in _ENDS else NOTHING


def _in_list(outer: Slot) -> Slot:
    if outer.want == "value" and outer.type is not None:
        item = outer.type.item or next((each.item for each in outer.type.options if each.item), None)
        return evolve(outer, type=item or outer.type, function=None)
    if outer.want == "item" and outer.block in {"metrics", "model", "layer", "output"}:
        return Slot("tensor")
    return Slot("tensor") if outer.want == "binding" else evolve(outer, function=None)


def _in_call(
    around: Around, item: tuple[LineToken, ...], outer: Slot, layers: Mapping[str, Function]
) -> Slot:
    """Return what an argument of a call takes; `item` is what of the argument stands before the place."""
    function = function_of(around.name, outer, layers)
    last = item[-1].kind if item else None
    if function is None or (last is not None and last not in _ENDS):
        return NOTHING
    at = around.argument
    if last == "ARROW" or function is SHARED or (function is REPEAT and at in {1, "step"}):
        return Slot("layer")
    if function is REPEAT:
        return Slot("value", kinds.integer(1))
    row = function.argument(at) if isinstance(at, str) else None
    if isinstance(at, int) and at < len(function.positional):
        row = function.positional[at]
    type_ = row.type if row is not None else function.rest if isinstance(at, str) else None
    slot = Slot("nothing", function=None if item else function, given=around.given)
    if around.name.startswith(PREFIX) and (type_ is None or type_.kind == "any"):
        return evolve(slot, want="tensor")
    if outer.want == "target" or (row is not None and row.doc == _DEVICES):
        return evolve(slot, want="target", name="devices")
    if row is not None:
        slot = evolve(slot, name=row.name, doc=row.doc)
    return slot if type_ is None else evolve(slot, want="value", type=type_)


# --- functions by name ------------------------------------------------------------------------------------

_DEVICES = "devices"


def _layer(name: str, layers: Mapping[str, Function]) -> Function | None:
    if name in layers:
        return step_function(layers[name])
    if name == "repeat":
        return REPEAT
    category = "application" if name.startswith(flows.APPLICATIONS) else "layer"
    found = function_at(kinds.keras(category), name.removeprefix(flows.APPLICATIONS))
    return None if found is None else step_function(found)


@cache
def _functions() -> dict[str, dict[str, Function]]:
    """Return the functions at places that have few of them, by their names and by what is wanted there."""
    makers = [INPUT, weight_function(), SHARED, PARAMETER]
    selectors = [each.function for each in schema.SELECTORS if each.pattern != "none"]
    measures = [
        Function(each.name, tuple(map(_measured, each.arguments)), doc=each.doc) for each in schema.MEASURES
    ]
    targets = [
        Function(each.name, (_SET, *each.arguments), doc=each.doc)
        for each in schema.TARGETS
        if each.shape in {"set", "groups", "pieces"}
    ]
    tables = {"binding": makers, "selector": selectors, "measure": measures, "target": targets}
    named = {want: {each.name: each for each in functions} for want, functions in tables.items()}
    return {**named, "tensor": named["binding"], "place": named["selector"], "expect": named["measure"]}


def _measured(argument: str) -> Argument:
    """Return an argument of a measure, which has the name of its kind."""
    return Argument(argument, kinds.string() if argument == "glob" else Type("any"), argument, required=True)


_SET = Argument("set", Type("any"), _DEVICES, required=True)

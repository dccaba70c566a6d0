"""What a spec has that completion and descriptions name: constants, layers, tensors and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsl import schema, syntax
from dsl.schema import Argument, Function, Type
from grammar.lower.devices import KINDS
from grammar.lower.network import flows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.source import Source
    from tfdeploy.lsp.names import Names, Use


@frozen
class Devices:
    """The devices of one machine, or of each task of a job.

    Attributes:
        job: The name of the job, or None for the machine itself.
        tasks: How many tasks the job has, if that is a plain number.
        counts: How many devices of each kind there are, or None if this is not a plain number.
    """

    job: str | None
    tasks: int | None
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
    type_ = flows.PARAMETER_TYPES.get(name or "", Type("any"))
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


def known_names(names: Names, source: Source, offset: int) -> dict[str, Use]:
    """Return the definitions of the names that are known at a place, by their names.

    Args:
        names: The names of the spec.
        source: The source of the file.
        offset: The offset in its text, from 0.
    """
    found = sorted(names.known_in(source, offset), key=lambda use: use.symbol.kind != "example")
    return {use.symbol.name: use for use in found}


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

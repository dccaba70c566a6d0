"""Stamp towers: write the nodes of a template once for each clone, with its own names, devices and inputs.

All clones are written into one GraphDef, which is imported once. Ports are replaced: that of a weight by a
read of its variable on the variable's device, those of inputs, seed and scale by tensors of the rest of the
graph. A gather of rows of a weight runs on the variable's device, so that only indices and rows are sent; if
nothing else needs the weight, it is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.draft import Draft
from compiler.graph.ledger import Entry, Ledger
from compiler.graph.node_types import input_types
from compiler.graph.stamp.lookups import Lookup, Usage, runs_functions, usage_of
from compiler.graph.stamp.micro_batches import AccumulatedResults, MicroBatchWriter
from compiler.graph.stamp.moment_exchange import JoinedExchange, received_names, write_exchanges
from compiler.graph.stamp.pieces import DealtRows, PieceWriter
from compiler.graph.stamp.places import Layout, TowerPlaces
from compiler.graph.stamp.riders import Rider
from compiler.graph.stamp.rows import RowTypes, write_cast, write_gather
from compiler.graph.stamp.sources import CutSource, WeightSource
from compiler.graph.tower.template import Template
from compiler.placement.rules import Rulebook, following
from compiler.plan import Tower, WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Role, Shape
from compiler.topology import Device


@frozen
class Bindings:
    """The tensors that replace a template's ports in one tower.

    Attributes:
        tower: The tower.
        weights: The variables by the names of the weights.
        inputs: The tensors of the model's inputs by name. With several micro-batches, each has one slice for
            each of them along its first axis.
        seed: The random state of the tower, or one for each micro-batch along the first axis.
        scale: The factor on the tower's loss: its share of the global batch if the loss is a mean, times the
            loss scale if there is one.
        inverse_share: One over that share.
        role: The role of all ops of the tower, or None if each has that of the template.
        micro_batches: The number of micro-batches in a step.
    """

    tower: Tower
    weights: Mapping[str, WeightSource | CutSource]
    inputs: Mapping[str, tf.Tensor]
    seed: tf.Tensor | None = None
    scale: float | tf.Tensor | None = None
    inverse_share: float | None = None
    role: Role | None = None  # set if all ops of the tower have the same role: evaluation
    micro_batches: int = 1


@define
class StampedTower:
    """A tower in the graph, whose tensors are found by their names in the template.

    Attributes:
        draft: The graph.
        template: The template.
        bindings: The tensors that replace its ports.
        usage: How the template uses its weights.
        accumulated: The results of its loop over micro-batches, or None if there is no loop.
    """

    draft: Draft = field(repr=False)
    template: Template = field(repr=False)
    bindings: Bindings = field(repr=False)
    usage: Usage = field(repr=False)
    accumulated: AccumulatedResults | None = field(default=None, repr=False)

    @property
    def tower(self) -> Tower:
        """The tower in the plan."""
        return self.bindings.tower

    def tensor(self, name: str) -> tf.Tensor:
        """Return a tensor by its name in the template.

        With several micro-batches, the result is the sum over all of them for gradients and metric states,
        the mean for losses and their weights, and the value of the last one for statistics and outputs.
        """
        if self.accumulated is not None:
            return self.draft.tensor(f"{self.accumulated.results[name]}:0", self._shape_after(name))
        base, _, index = name.partition(":")
        if base in self.template.inputs.values():  # for example, an output of the model that is an input
            given = next(key for key, port in self.template.inputs.items() if port == base)
            return self.bindings.inputs[given]
        shape = self.template.results[name].shape
        return self.draft.tensor(f"{self.tower.op_name(base)}:{index or 0}", shape)

    def inner(self, name: str, shape: Shape) -> tf.Tensor:
        """Return a tensor that is no result of the template, in a tower without a loop.

        Args:
            name: Its name in the template.
            shape: Its shape.
        """
        base, _, index = name.partition(":")
        return self.draft.tensor(f"{self.tower.op_name(base)}:{index or 0}", shape)

    def _shape_after(self, name: str) -> Shape | None:
        """Return the shape of a tensor after all micro-batches; a sparse gradient has the rows of all."""
        shape = self.template.results[name].shape
        gradients = self.template.gradients
        sparse = any(each.indices is not None and name in (each.values, each.indices) for each in gradients)
        return (None, *shape[1:]) if sparse and shape is not None else shape

    def gradient(self, part: int, weight: str) -> tf.Tensor | tf.IndexedSlices:
        """Return the gradient of the tower's scaled loss by a weight; that of an embedding may be sparse.

        Args:
            part: The number of the part of the loss.
            weight: The name of the weight.
        """
        found = self.template.losses[part].gradients[weight]
        if found.indices is None:
            return self.tensor(found.values)
        return tf.IndexedSlices(self.tensor(found.values), self.tensor(found.indices))

    def dealt_rows(self, part: int, weight: str) -> DealtRows | None:
        """Return how the rows of a gradient were dealt to the pieces of its weight when they were looked up.

        Args:
            part: The number of the part of the loss.
            weight: The name of the weight.

        Returns:
            None if the gradient has other rows than those of a single look-up outside of a loop, or if the
            weight is whole.
        """
        source, lookups = self.bindings.weights[weight], self.usage.by_weight(weight)
        indices = self.template.losses[part].gradients[weight].indices
        if not isinstance(source, CutSource) or self.accumulated is not None or len(lookups) != 1:
            return None
        lookup = self.usage.lookups[lookups[0]]
        if indices is None or not _are_flattened(self.template, indices, lookup.indices):
            return None
        return DealtRows.of(self.draft, self.tower.op_name(lookup.gather), source)

    def reads(self, weight: str, shard: int | None = None) -> list[str]:
        """Return the names of the ops by which the tower reads a weight, or some of its rows.

        Args:
            weight: The name of the weight.
            shard: The number of the piece, if the weight is in pieces.
        """
        piece = "" if shard is None else f"/shard_{shard}"
        names = [read_name(self.tower, weight) + piece] if weight in self.usage.whole else []
        if self.accumulated is not None:  # rows are looked up inside the loop
            names += [self.accumulated.ended] if self.usage.by_weight(weight) else []
            return names
        names += [
            self.tower.op_name(
                rows_name(self.usage.lookups[each]) if shard is None else f"{each}/rows{piece}"
            )
            for each in self.usage.by_weight(weight)
        ]
        return names


def _are_flattened(template: Template, flat: str, tensor: str) -> bool:
    """Whether the tensor `flat` of a template, which has one axis, has the elements of another in order."""
    if flat == tensor:
        return True
    node = next(each for each in template.graph_def.node if each.name == flat.partition(":")[0])
    return bool(node.op == "Reshape" and node.input[0] == tensor)


def read_name(tower: Tower, weight: str) -> str:
    """Return the name of the op by which a tower reads a weight.

    Args:
        tower: The tower.
        weight: The path of the weight, such as `conv1/kernel`.
    """
    return tower.op_name(f"{weight}/read")


def rows_name(lookup: Lookup) -> str:
    """Return the name, inside a tower, of the op that gathers rows at the table."""
    return lookup.gather if lookup.cast is None else f"{lookup.gather}/rows"


def stamp(
    stamps: Sequence[tuple[Template, Bindings]], rulebook: Rulebook, ledger: Ledger
) -> list[StampedTower]:
    """Write templates into a graph, and record every op in the ledger.

    Args:
        stamps: Each template with the tensors for its ports, one for each tower.
        rulebook: The rules of the spec.
        ledger: The ledger of the graph.
    """
    assembled = tf.compat.v1.GraphDef()
    known: dict[int, Layout] = {}
    writers: list[_Writer] = []
    for template, bindings in stamps:
        if id(template) not in known:
            known[id(template)] = Layout(template, usage_of(template), rulebook)
        writers.append(_Writer(known[id(template)], bindings, ledger, assembled))
    meetings = _meetings(writers)
    accumulated = [writer.write(meetings) for writer in writers]
    write_exchanges(assembled, meetings, ledger)
    for each in known.values():
        assembled.library.MergeFrom(each.template.graph_def.library)
        assembled.versions.CopyFrom(each.template.graph_def.versions)
    ledger.draft.add(assembled)
    return [
        StampedTower(ledger.draft, template, bindings, known[id(template)].usage, done)
        for (template, bindings), done in zip(stamps, accumulated, strict=True)
    ]


def _meetings(writers: Sequence[_Writer]) -> dict[str, JoinedExchange]:
    """Return the exchanges between towers by name; their sums are placed with the layer of clone 0."""
    first = writers[0]
    return {
        exchange.name: JoinedExchange(
            first.meets(at), [(each.bindings.tower, each.template.exchanges[at]) for each in writers]
        )
        for at, exchange in enumerate(first.template.exchanges)
    }


@define
class _Writer:
    layout: Layout
    bindings: Bindings
    ledger: Ledger
    target: Any
    places: TowerPlaces = field(init=False)
    constants: dict[str, Any] = field(init=False)  # nodes of the template, by name
    gathers: list[Any] = field(init=False)  # those whose numbers of rows depend on no weight
    _names: dict[str, str] = field(factory=dict)  # of the template's nodes: names in the graph
    _riders: dict[str, list[Rider]] = field(factory=dict)  # by the gather with whose rows they come

    def __attrs_post_init__(self) -> None:
        homes = {
            weight: source.placed
            for weight, source in self.bindings.weights.items()
            if isinstance(source, WeightSource)
        }
        self.places = TowerPlaces(self.layout, self.bindings.tower, homes)
        nodes, of_examples = self.template.graph_def.node, self.layout.usage.of_examples
        self.constants = {node.name: node for node in nodes if node.op == "Const"}
        self.gathers = [node for node in nodes if node.name in of_examples] if of_examples else []

    @property
    def template(self) -> Template:
        return self.layout.template

    def write(self, meetings: Mapping[str, JoinedExchange]) -> AccumulatedResults | None:
        """Write the tower; return the results of its loop if it computes several micro-batches in a step."""
        if self.bindings.micro_batches == 1:
            self._write(meetings)
            return None
        whole, self.target = self.target, tf.compat.v1.GraphDef()
        self._write(meetings)
        template, bindings = self.template, self.bindings
        ports = [*template.inputs.values()] + ([template.seed] if template.seed is not None else [])
        sliced = frozenset(self._names[port] for port in ports)
        return MicroBatchWriter(
            template,
            bindings.tower,
            self.target.node,
            self._names,
            sliced,
            bindings.micro_batches,
            self.ledger,
            whole,
        ).write()

    def _write(self, meetings: Mapping[str, JoinedExchange]) -> None:
        tower, usage = self.bindings.tower, self.layout.usage
        for node in self.template.graph_def.node:
            self._names[node.name] = tower.op_name(node.name)
        self._replace_ports()
        for port, name, exchange in received_names(self.template):
            self._names[port] = name
            self.places.put_port(port, meetings[exchange].placed.device)
        ports = {*self.template.weights.values(), *self.template.inputs.values(), self.template.seed}
        ports |= set(self.template.received)
        scale = self.bindings.scale
        if self.template.scale is not None and tf.is_tensor(scale):
            self._replace(self.template.scale, scale)
            ports.add(self.template.scale)
        for node in self.template.graph_def.node:
            if node.name == self.template.scale and node.name not in ports:
                self._constant(node.name, scale)
            elif node.name == self.template.inverse_share:
                self._constant(node.name, self.bindings.inverse_share)
            elif node.name in usage.lookups:
                self._look_up(node, usage.lookups[node.name])
            elif node.name not in ports and node.name not in usage.gone:
                self._copy(node)

    def meets(self, number: int) -> Placed:
        """Return the place of the layer of an exchange."""
        inner = self.template.exchanges[number].sent[0].partition(":")[0]
        placed = self.places.of(inner)
        return Placed(placed.device, following(inner, placed))

    def _replace_ports(self) -> None:
        template, bindings = self.template, self.bindings
        for name, port in template.inputs.items():
            self._replace(port, bindings.inputs[name])
        if template.seed is not None and bindings.seed is not None:
            self._replace(template.seed, bindings.seed)
        dtypes = {
            node.name: node.attr["dtype"] for node in template.graph_def.node if node.op == "Placeholder"
        }
        for weight, port in template.weights.items():
            source = bindings.weights[weight]
            home = self.places.own if isinstance(source, CutSource) else source.placed
            self.places.put_port(port, home.device)
            if weight in self.layout.usage.whole:
                self._names[port] = self._read(weight, source, dtypes[port])

    def _replace(self, port: str, tensor: tf.Tensor) -> None:
        self._names[port] = str(tensor.name).removesuffix(":0")
        self.places.put_port(port, self.ledger.entries[tensor.op.name].device)

    def _read(self, weight: str, source: WeightSource | CutSource, dtype: Any) -> str:
        name = read_name(self.bindings.tower, weight)
        if isinstance(source, CutSource):
            handles = [each.variable.name for each in source.sources]
            return self._pieces(source, handles).join(name, dtype.type)
        node = self.target.node.add(name=name, op="ReadVariableOp")
        node.input.append(source.variable.name)
        node.attr["dtype"].CopyFrom(dtype)
        self._enter(node, Placed(source.placed.device, following(weight, source.placed)), "read")
        return self._riding(weight, source, dtype.type) or name

    def _riding(self, weight: str, source: WeightSource, dtype: int) -> str | None:
        """Let a small weight of a server come with rows of a table from there, if the tower looks up any.

        Returns:
            The name of the value in the tower; None if the weight is sent by itself.
        """
        bindings, device = self.bindings, source.placed.device
        if not isinstance(self.ledger.plan, WorkerPlan) or bindings.role or bindings.micro_batches > 1:
            return None
        name = read_name(bindings.tower, weight)
        shape = source.variable.sizes
        rider = Rider(weight, name, f"{name}/sent", shape, dtype, device)
        gather = self._gather_with(device, dtype)
        if device.host == bindings.tower.device.host or not rider.is_small or gather is None:
            return None
        port = self.template.weights[weight]
        if not self._is_used_in_tower(port):
            return None
        self.places.put_port(port, bindings.tower.device)
        self._riders.setdefault(gather, []).append(rider)
        return rider.sent

    def _gather_with(self, device: Device, dtype: int) -> str | None:
        """Return the first gather whose rows come from a device in a type, and wait for no weight."""
        lookups = self.layout.usage.lookups
        for node in self.gathers:
            if node.attr["Tparams"].type == dtype:
                table = self.bindings.weights[lookups[node.name].weight]
                if isinstance(table, CutSource) and device in table.devices:
                    return str(node.name)
        return None

    def _is_used_in_tower(self, port: str) -> bool:
        """Whether no rule has put an op that uses a port to another device than that of the tower."""
        users = [each for each in self.template.graph_def.node if port in each.input]
        return all(self.places.of(each.name).device == self.bindings.tower.device for each in users)

    def _pieces(self, source: CutSource, handles: Sequence[str], riders: Sequence[Rider] = ()) -> PieceWriter:
        beside = [
            Placed(each.placed.device, following(shard.name, each.placed))
            for shard, each in zip(source.shards, source.sources, strict=True)
        ]
        return PieceWriter(source, handles, beside, self.places.own, self._add, riders)

    def _add(self, name: str, op: str, inputs: Sequence[str], placed: Placed, role: Role) -> Any:
        """Write a node, and return it for its attributes."""
        node = self.target.node.add(name=name, op=op)
        node.input.extend(inputs)
        self._enter(node, placed, role)
        return node

    def _look_up(self, template_node: Any, lookup: Lookup) -> None:
        """Write a gather of rows from the variable itself, on its device, with the conversion of the rows."""
        source, name = self.bindings.weights[lookup.weight], rows_name(lookup)
        placed, role = self.places.of(lookup.gather), self.template.roles[lookup.gather]
        cast = next((each for each in self.template.graph_def.node if each.name == lookup.cast), None)
        types = RowTypes(template_node.attr["Tindices"].type, template_node.attr["Tparams"].type, cast)
        indices = self._input(lookup.indices)
        if isinstance(source, CutSource):
            handles = [each.variable.name for each in source.sources]
            pieces = self._pieces(source, handles, self._riders.get(lookup.gather, ()))
            pieces.look_up(self._names[lookup.gather], indices, types, placed, role)
            return
        rows = self.bindings.tower.op_name(name)
        write_gather(self._add, rows, source, (source.variable.name, indices), types, placed, role)
        if cast is not None:
            write_cast(self._add, self._names[lookup.gather], rows, types, placed, role)

    def _constant(self, port: str, value: float | None) -> None:
        name = self._names[port]
        node = self.target.node.add(name=name, op="Const")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0 if value is None else value, tf.float32))
        self._enter(node, self.places.own, "forward")

    def _copy(self, template_node: Any) -> None:
        node = self.target.node.add()
        node.CopyFrom(template_node)
        inner = template_node.name
        node.name = self._names[inner]
        placed, role = self.places.of(inner), self.template.roles[inner]
        for at, each in enumerate(template_node.input):
            node.input[at] = self._near(each, placed) if each in self.constants else self._input(each)
        if runs_functions(template_node):
            self._fetch_inputs(node, template_node, placed, role)
        self._enter(node, placed, role)

    def _near(self, constant: str, placed: Placed) -> str:
        """Return the name of a constant for an op on another device: a copy there, which need not be sent."""
        original = self.places.of(constant)
        if original.device == placed.device:
            return self._names[constant]
        name = f"{self._names[constant]}/{placed.device.scope}"
        if name not in self.ledger.entries:
            node = self.target.node.add()
            node.CopyFrom(self.constants[constant])
            node.name = name
            self._enter(node, placed, self.template.roles[constant])
        return name

    def _fetch_inputs(self, node: Any, template_node: Any, placed: Placed, role: Role) -> None:
        """Let a loop use copies, on its own device, of what comes from other devices.

        TensorFlow keeps the loop variables on the device on which they were made, and would send them in
        every micro-batch.
        """
        for at, dtype in enumerate(input_types(template_node)):
            if self.places.made_at(template_node.input[at]) != placed.device:
                copy = self.target.node.add(name=f"{node.name}/input_{at}", op="Identity")
                copy.input.append(node.input[at])
                copy.attr["T"].type = dtype
                self._enter(copy, placed, role)
                node.input[at] = copy.name

    def _input(self, name: str) -> str:
        control = "^" if name.startswith("^") else ""
        base, _, index = name.removeprefix("^").partition(":")
        target = self._names[base]
        if control:
            return f"^{target.partition(':')[0]}"
        return f"{target}:{index}" if index else target

    def _enter(self, node: Any, placed: Placed, role: Role) -> None:
        node.device = self.ledger.plan.tensorflow_device(placed.device)
        clone = None if self.bindings.role is not None else self.bindings.tower.index
        self.ledger.enter(node.name, Entry(placed, self.bindings.role or role, clone))

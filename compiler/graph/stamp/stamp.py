"""Stamp towers: write the nodes of a template once for each clone, with its own names, devices and inputs.

All clones are written into one GraphDef, which is imported once. Ports are replaced: that of a weight by a
read of its variable on the variable's device, those of inputs, seed and scale by tensors of the rest of the
graph. A gather of rows of a weight runs on the variable's device, so that only indices and rows are sent; if
nothing else needs the weight, it is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, evolve, field, frozen

from compiler.graph.ledger import Ledger
from compiler.graph.nodes import count_inputs
from compiler.graph.stamp.lookups import Lookup, usage_of
from compiler.graph.stamp.micro_batches import AccumulatedResults, MicroBatchWriter
from compiler.graph.stamp.moment_exchange import Gather, JoinedExchange, received_tensors, write_exchanges
from compiler.graph.stamp.pieces import DealtRows, PieceWriter, join
from compiler.graph.stamp.pipeline import PipelineWriter
from compiler.graph.stamp.places import Layout, TowerPlaces
from compiler.graph.stamp.sources import CutSource, Rider, WeightSource, gather_rows, read_together
from compiler.graph.stamp.stages import require_pipeline
from compiler.graph.tower.template import Template
from compiler.placement.rules import Rulebook, following
from compiler.plan import Tower, WorkerPlan
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Role, Rows, Tensor, Use, Value
from compiler.step.writer import StepWriter
from compiler.topology import Device


@frozen
class Bindings:
    """The tensors that replace a template's ports in one tower.

    Attributes:
        inputs: The tensors of the model's inputs by name. With several micro-batches, each has one slice for
            each of them along its first axis.
        seed: The random state of the tower, or one for each micro-batch along the first axis.
        scale: The factor on the tower's loss: its share of the global batch if the loss is a mean, times the
            loss scale if there is one.
        inverse_share: One over that share.
        role: The role of all ops of the tower, or None if each has that of the template.
    """

    tower: Tower
    weights: Mapping[str, WeightSource | CutSource]
    inputs: Mapping[str, Tensor]
    seed: Tensor | None = None
    scale: float | Tensor | None = None
    inverse_share: float | None = None
    role: Role | None = None  # set if all ops of the tower have the same role: evaluation
    micro_batches: int = 1


@define
class StampedTower:
    """A tower in the graph, whose tensors are found by their names in the template."""

    ledger: Ledger = field(repr=False)
    bindings: Bindings = field(repr=False)
    layout: Layout = field(repr=False)
    use: Use = field(repr=False)
    # For each weight that the tower reads, the name of the op that does, for each piece; the piece of a whole
    # weight is None.
    read_by: Mapping[str, Sequence[Mapping[int | None, str]]] = field(repr=False)
    # How rows were dealt to the pieces of tables, by the gather in the template.
    dealt: Mapping[str, DealtRows] = field(repr=False)
    # The results of its loop over micro-batches, or None if there is no loop.
    accumulated: AccumulatedResults | None = field(default=None, repr=False)

    @property
    def tower(self) -> Tower:
        """The tower in the plan."""
        return self.bindings.tower

    @property
    def template(self) -> Template:
        """The template."""
        return self.layout.template

    def record(self, name: str) -> Tensor:
        """Return a tensor of the step by its name in the template.

        With several micro-batches, the result is the sum over all of them for gradients and metric states,
        the mean for losses and their weights, and the value of the last one for statistics and outputs.
        """
        if self.accumulated is not None:
            return self.accumulated.results[name]
        # TensorFlow knows that a gradient has the shape of its weight only while it makes the gradient.
        made, shape = self.use.tensor(name), self.template.results[name].shape
        return made if made.shape == shape else evolve(made, shape=shape)

    def gradient(self, part: int, weight: str) -> Value:
        """Return the gradient of the tower's scaled loss by a weight; that of an embedding may be sparse."""
        found = self.template.losses[part].gradients[weight]
        if found.indices is None:
            return self.record(found.values)
        return Rows(self.record(found.values), self.record(found.indices))

    def dealt_rows(self, part: int, weight: str) -> DealtRows | None:
        """Return how the rows of a gradient were dealt to the pieces of its weight when they were looked up.

        Returns:
            None if the gradient has other rows than those of a single look-up outside of a loop, or if the
            weight is whole.
        """
        lookups = self.layout.usage.by_weight(weight)
        indices = self.template.losses[part].gradients[weight].indices
        if self.accumulated is not None or len(lookups) != 1 or indices is None:
            return None
        lookup = self.layout.usage.lookups[lookups[0]]
        return self.dealt.get(lookup.gather) if self._are_flattened(indices, lookup.indices) else None

    def _are_flattened(self, flat: str, tensor: str) -> bool:
        """Whether `flat`, which has one axis, has the elements of another tensor of the template in order."""
        node = self.template.fragment.node[flat.partition(":")[0]]
        return flat == tensor or bool(node.op == "Reshape" and node.input[0] == tensor)

    def reads(self, weight: str, shard: int | None = None) -> list[str]:
        """Return the names of the ops by which the tower reads a weight, or some of its rows."""
        whole = weight in self.layout.usage.whole
        found = [each[shard] for each in self.read_by.get(weight, ()) if shard in each]
        if self.accumulated is None:
            return found
        # rows are looked up inside the loop
        return [*found[: int(whole)], *([self.accumulated.ended] if found[int(whole) :] else [])]


def stamp(
    stamps: Sequence[tuple[Template, Bindings]],
    rulebook: Rulebook,
    ledger: Ledger,
    gather: Gather | None = None,
) -> list[StampedTower]:
    """Write templates into a graph; `gather` exchanges moments with towers in the graphs of other workers."""
    writer, pieces = ledger.writer("aggregate"), dict[str, Tensor]()
    known: dict[int, Layout] = {}
    writers: list[_Writer] = []
    for template, bindings in stamps:
        if id(template) not in known:
            staged = ledger.plan.update.schedule is not None and bindings.role is None
            layout = known[id(template)] = Layout(template, usage_of(template), rulebook, staged)
            if staged:
                require_pipeline(ledger.plan, layout.stages(bindings.tower))
        writers.append(_Writer(known[id(template)], bindings, ledger, writer, pieces))
    meetings = _meetings(writers)
    stamped = [writer.write(meetings) for writer in writers]
    by_tower = {id(each.tower): each for each in stamped}
    write_exchanges(writer, meetings, lambda tower, own: by_tower[id(tower)].use.tensor(own), gather)
    return stamped


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
    writer: StepWriter
    # The pieces that have been read, by the names of their variables: once for all towers, because there may
    # be very many of both.
    pieces: dict[str, Tensor]
    places: TowerPlaces = field(init=False)
    names: dict[str, str] = field(init=False)  # of the template's nodes: names in the graph
    given: dict[str, Tensor] = field(factory=dict)  # by port, or by a gather that is written otherwise
    instead: dict[tuple[str, int], Tensor] = field(factory=dict)
    placed: dict[str, Placed] = field(factory=dict)
    own: StepWriter = field(init=False)  # writes the ops of the tower, of which those in a loop change
    read_by: dict[str, list[Mapping[int | None, str]]] = field(factory=dict)
    dealt: dict[str, DealtRows] = field(factory=dict)
    _part: list[str] = field(factory=list)  # the nodes that come next
    _near: dict[tuple[str, Device], Tensor] = field(factory=dict)  # copies of constants
    _riders: dict[str, list[Rider]] = field(factory=dict)  # by the gather with whose rows they come
    _together: dict[tuple[Device, str], list[Rider]] = field(factory=dict)  # of the same device and type
    _writers: dict[Role, StepWriter] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        tower, weights = self.bindings.tower, self.bindings.weights
        homes = {name: each.placed for name, each in weights.items() if isinstance(each, WeightSource)}
        self.places = TowerPlaces(self.layout, tower, homes)
        self.names = {own: tower.op_name(own) for own in self.template.fragment.node}
        self.own = StepWriter("forward", self.writer.unique)

    @property
    def template(self) -> Template:
        return self.layout.template

    @property
    def clone(self) -> int | None:
        return None if self.bindings.role is not None else self.bindings.tower.index

    def of(self, role: Role) -> StepWriter:
        """Return the writer of ops of the tower."""
        role = self.bindings.role or role
        if role not in self._writers:
            self._writers[role] = self.own.on(role, self.clone)
        return self._writers[role]

    def write(self, meetings: Mapping[str, JoinedExchange]) -> StampedTower:
        """Write the tower, with a loop or a pipeline if it computes several micro-batches in a step."""
        self._write(meetings)
        use, done, bindings = self._use(()), None, self.bindings
        if bindings.micro_batches == 1:
            self.writer.ops.extend(self.own.ops)
        else:
            ports = [*self.template.inputs.values(), *filter(None, [self.template.seed])]
            schedule = self.ledger.plan.update.schedule
            written_by = MicroBatchWriter if schedule is None else partial(PipelineWriter, schedule=schedule)
            done = written_by(
                self.template,
                bindings.tower,
                self.own.ops,
                use.tensor,
                frozenset(self.given[port].name for port in ports),
                bindings.micro_batches,
                self.ledger,
                self.writer,
            ).write()
        return StampedTower(self.ledger, bindings, self.layout, use, self.read_by, self.dealt, done)

    def _write(self, meetings: Mapping[str, JoinedExchange]) -> None:
        template, usage = self.template, self.layout.usage
        self._replace_ports()
        for port, tensor, exchange in received_tensors(template):
            self.given[port] = tensor
            self.places.put_port(port, meetings[exchange].placed.device)
        scale = self.bindings.scale
        if template.scale is not None and isinstance(scale, Tensor):
            self._replace(template.scale, scale)
        numbers = {template.scale: scale, template.inverse_share: self.bindings.inverse_share}
        ports = {*template.weights.values(), *self.given}
        for own in template.fragment.node:
            if own in ports or own in usage.gone:
                continue
            if own in numbers:
                self._constant(own, numbers[own])
            elif own in usage.lookups:
                self._look_up(usage.lookups[own])
            else:
                self._copy(own)
        self._end_part()

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
        for weight, port in template.weights.items():
            source = bindings.weights[weight]
            home = self.places.own if isinstance(source, CutSource) else source.placed
            self.places.put_port(port, home.device)
            if weight in self.layout.usage.whole:
                self.given[port] = self._read(weight, source)
        for (device, dtype), riders in self._together.items():
            if len(riders) > 1:
                scope = self.bindings.tower.op_name(f"read/{device.scope}/{dtype}")
                for each, value in read_together(self.of("read"), scope, riders, self.places.own):
                    self._let_come(each, value)

    def _replace(self, port: str, tensor: Tensor) -> None:
        self.given[port] = tensor
        self.places.put_port(port, self.ledger.entries[tensor.op].device)

    # --- weights ------------------------------------------------------------------------------------------

    def _read(self, weight: str, source: WeightSource | CutSource) -> Tensor:
        name, writer = self.bindings.tower.op_name(f"{weight}/read"), self.of("read")
        if isinstance(source, CutSource):
            values = [*map(self._read_piece, source.shards, source.sources)]
            numbers: list[int | None] = [each.number for each in source.shards]
            reads = dict(zip(numbers, (each.op for each in values), strict=True))
            self.read_by.setdefault(weight, []).append(reads)
            return join(writer, name, values, source.shards[0], self.places.own)
        self.read_by.setdefault(weight, []).append({None: name})
        read = writer.read(name, source.variable.tensor, self.layout.beside(weight, source.placed))
        return self._riding(weight, source, read) or read

    def _read_piece(self, shard: Shard, source: WeightSource) -> Tensor:
        handle, role = source.variable.tensor, self.bindings.role
        if handle.op not in self.pieces:
            name = f"{handle.op}/read"
            name = self.writer.unique(self.bindings.tower.op_name(name) if role else name)
            beside = self.layout.beside(shard.name, source.placed)
            self.pieces[handle.op] = self.writer.on(role or "read").read(name, handle, beside)
        return self.pieces[handle.op]

    def _riding(self, weight: str, source: WeightSource, read: Tensor) -> Tensor | None:
        """Let a small weight of a server come with rows of a table from there, if the tower looks up any.

        Returns:
            The value in the tower; None if the weight is sent with other small ones, or by itself.
        """
        bindings, plan = self.bindings, self.ledger.plan
        if not isinstance(plan, WorkerPlan) or bindings.role:
            return None
        rider = Rider(weight, read, f"{read.op}/sent", self.layout.beside(weight, source.placed))
        if not rider.is_small:
            return None
        if rider.device.host == bindings.tower.device.host or not self._is_used_in_tower(weight):
            return None
        loops = bindings.micro_batches > 1
        gather = None if loops else self._gather_with(rider.device, read.dtype)
        if gather is not None:
            self._riders.setdefault(gather, []).append(rider)
            return self._let_come(rider, Tensor(rider.sent, read.dtype, read.shape))
        # a loop begins with the statistics as they are read, and gives each round those of the one before
        if plan.is_server(rider.device) and not (loops and weight in self.template.state_updates):
            self._together.setdefault((rider.device, read.dtype), []).append(rider)
        return None

    def _let_come(self, rider: Rider, value: Tensor) -> Tensor:
        """Use a value in the tower where the template uses a weight."""
        port = self.template.weights[rider.weight]
        self.places.put_port(port, self.bindings.tower.device)
        self.given[port] = value
        return value

    def _gather_with(self, device: Device, dtype: str) -> str | None:
        """Return the first gather whose rows come from a device in a type, and wait for no weight."""
        usage = self.layout.usage
        for own in self.template.fragment.node if usage.of_examples else ():
            if own in usage.of_examples and self.template.fragment.made[own][0][0] == dtype:
                table = self.bindings.weights[usage.lookups[own].weight]
                if isinstance(table, CutSource) and device in table.devices:
                    return own
        return None

    def _is_used_in_tower(self, weight: str) -> bool:
        """Whether no rule has put an op that uses a weight to another device than that of the tower."""
        port = self.template.weights[weight]
        users = [own for own, node in self.template.fragment.node.items() if port in node.input]
        return all(self.places.of(each).device == self.bindings.tower.device for each in users)

    def _pieces(self, source: CutSource, writer: StepWriter, riders: Sequence[Rider] = ()) -> PieceWriter:
        pieces = zip(source.shards, source.sources, strict=True)
        beside = [self.layout.beside(shard.name, each.placed) for shard, each in pieces]
        return PieceWriter(source, beside, self.places.own, writer, riders)

    def _look_up(self, lookup: Lookup) -> None:
        """Write a gather of rows from the variable itself, on its device, with the conversion of the rows."""
        self._end_part()
        source, own = self.bindings.weights[lookup.weight], lookup.gather
        placed, name, writer = self.places.of(own), self.names[own], self.of(self.template.roles[own])
        dtype, indices = self.template.fragment.made[own][0][0], self._tensor(lookup.indices)
        if isinstance(source, CutSource):
            pieces = self._pieces(source, writer, self._riders.get(own, ()))
            found = pieces.look_up(name, indices, dtype, placed)
            self.given[own], self.dealt[own], reads = found.rows, found.dealt, found.reads
        else:
            gathered = name if lookup.cast is None else f"{name}/rows"
            rows, reads = gather_rows(writer, gathered, source, indices, placed), {None: gathered}
            self.given[own] = writer.cast(name, rows, dtype, placed)
        self.read_by.setdefault(lookup.weight, []).append(reads)

    # --- nodes of the template ----------------------------------------------------------------------------

    def _constant(self, port: str, value: float | Tensor | None) -> None:
        self._end_part()
        number = value if isinstance(value, float) else 1.0
        self.given[port] = self.of("forward").constant(self.names[port], number, "float32", self.places.own)

    def _copy(self, own: str) -> None:
        """Let a node of the template be written with the next ones."""
        placed = self.placed[own] = self.places.of(own)
        for at, each in self.layout.constants.get(own, ()):
            there = self.places.of(each)
            if there is not placed and there.device != placed.device:
                self.instead[own, at] = self._copied(each, placed)
        self._part.append(own)
        if own in self.layout.running:
            self._fetch_inputs(own, self.template.fragment.node[own], placed)

    def _copied(self, constant: str, placed: Placed) -> Tensor:
        """Return a copy of a constant for an op on another device, which need not be sent."""
        key = (constant, placed.device)
        if key not in self._near:
            dtype, shape = self.template.fragment.made[constant][0]
            name = f"{self.names[constant]}/{placed.device.scope}"
            self._near[key] = Tensor(name, dtype, shape)
            self._end_part()
            self.own.ops.append(self._use([constant], {constant: name}, {constant: placed}))
        return self._near[key]

    def _fetch_inputs(self, own: str, node: Any, placed: Placed) -> None:
        """Let a loop use copies, on its own device, of what comes from other devices.

        TensorFlow keeps the loop variables on the device on which they were made, and would send them in
        every micro-batch.
        """
        self._end_part()
        for at in range(count_inputs(node)):
            if self.places.made_at(node.input[at]) != placed.device:
                given = self.instead.get((own, at)) or self._tensor(node.input[at])
                writer, name = self.of(self.template.roles[own]), f"{self.names[own]}/input_{at}"
                (self.instead[own, at],) = writer.write("Identity", name, (given,), placed)

    def _tensor(self, own: str) -> Tensor:
        """Return a tensor of the tower by its name in the template."""
        return self._use(()).tensor(own)

    def _end_part(self) -> None:
        if self._part:
            self.own.ops.append(self._use(self._part))
            self._part = []

    def _use(
        self,
        ops: Sequence[str],
        names: Mapping[str, str] | None = None,
        placed: Mapping[str, Placed] | None = None,
    ) -> Use:
        role: Any = self.bindings.role or self.template.roles
        return Use(
            self.template.fragment,
            ops,
            self.names if names is None else names,
            self.given,
            self.placed if placed is None else placed,
            role,
            self.clone,
            instead=self.instead,
        )

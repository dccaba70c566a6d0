"""The work of a step of a compiled graph, as records for the forecast of its time."""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, evolve, field

from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.inspect.step.loop_shapes import shaped_graph
from compiler.graph.inspect.step.ops import HANDLES, step_ops
from compiler.graph.inspect.step.transfers import tensor_bytes
from compiler.graph.inspect.time.row_counts import RowCounts
from compiler.graph.inspect.time.worker_steps import GraphPart, StepParts, steps_of_all, work_of
from compiler.graph.ledger import Entry
from compiler.plan import WorkerPlan
from compiler.reasons import Reason
from compiler.threads import cores
from compiler.time.costs import choose_costs
from compiler.time.flops import PASSED_ON, flops
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.work import SIZED_BY_VALUES, Arrow, Signature, StepWork, TimedOp, scope_of

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.time.profile import Profile

_TOLD = (
    "data_format",
    "dilations",
    "ksize",
    "padding",
    "strides",
    "transpose_a",
    "transpose_b",
    "adj_x",
    "adj_y",
    "is_training",
    "keep_dims",
    "DstT",
    "use_nesterov",
    "use_locking",
)
"""The attributes of ops on which their time depends."""

_OWN = ("forward", "gradient", "input", "metric")
"""The roles of ops that each worker with a graph of its own has on its own devices."""

_GRADIENTS = ("aggregate", "gradient")
"""The roles of ops that make gradients or add them up."""

_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
_LOOP_STARTS, _LOOP_ENDS, _BACK = ("Enter", "RefEnter"), ("Exit", "RefExit"), ("NextIteration", "Merge")


Work: TypeAlias = tuple[Signature, int, int]
"""What the time of an op depends on, its floating point operations, and the bytes that it moves."""


def timed_step(compiled: CompiledGraph) -> StepWork:
    """Return the work of a step of a graph; if each worker has one of its own, that of the steps of all.

    Args:
        compiled: The graph; that of the chief if each worker has one of its own.
    """
    plan = compiled.plan
    if not isinstance(plan, WorkerPlan):
        return graph_step(compiled)
    return steps_of_all(plan, step_parts(compiled))


def step_parts(compiled: CompiledGraph) -> StepParts:
    """Return the parts of a step of the chief.

    Args:
        compiled: The graph of the chief, which each worker has of its own.
    """
    exchange = compiled.exchange
    assert exchange is not None
    if exchange.step is not None:
        return StepParts(read_part(compiled, _ancestors([exchange.step.op])))
    own, others = exchange.post, exchange.apply
    assert own is not None
    assert others is not None
    applied = _ancestors([others, compiled.data_loss.op])
    return StepParts(read_part(compiled, _ancestors([own])), read_part(compiled, applied))


def graph_step(compiled: CompiledGraph) -> StepWork:
    """Return the work of a graph in which all that a step needs of it runs at once.

    Args:
        compiled: The graph.
    """
    loops = [_ancestors([each.train_op, each.data_loss.op]) for each in compiled.train_loops]
    needed = {each.name for each in step_ops(compiled)} | {name for loop in loops for name in loop}
    part = read_part(compiled, needed)
    numbers = {each.name: at for at, each in enumerate(part.ops)}
    found = work_of(compiled.plan, part)
    return evolve(found, loops=tuple(tuple(sorted(numbers[name] for name in loop)) for loop in loops))


def read_part(compiled: CompiledGraph, needed: Collection[str]) -> GraphPart:
    """Return the ops with some names, and what they wait for.

    Args:
        compiled: The graph.
        needed: The names of the ops that are read.
    """
    return _Reader(compiled, needed).read()


@define
class _Reader:
    compiled: CompiledGraph
    needed: Collection[str]
    ops: list[Any] = field(factory=list, repr=False)
    numbers: dict[str, int] = field(factory=dict, repr=False)
    signatures: dict[Signature, Signature] = field(factory=dict, repr=False)
    of_towers: dict[Hashable, Work] = field(factory=dict, repr=False)  # by the name in the tower, and shapes
    shaped: Any = field(init=False, repr=False)
    counts: RowCounts = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.shaped = shaped_graph(self.compiled)
        self.counts = RowCounts(self.shaped)

    def read(self) -> GraphPart:
        self.ops = [each for each in self.compiled.graph.get_operations() if each.name in self.needed]
        self.numbers = {each.name: at for at, each in enumerate(self.ops)}
        looped = self._in_loop()
        ops = tuple(self._op(each, looped=each.name in looped) for each in self.ops)
        entries = self.compiled.ledger.entries
        variables = self.compiled.variables
        own = frozenset(at for at, each in enumerate(self.ops) if _is_own(entries[each.name], variables))
        gradients = frozenset(at for at, each in enumerate(self.ops) if entries[each.name].role in _GRADIENTS)
        return GraphPart(ops, tuple(self._arrows()), own, gradients, self._of_chief())

    def _of_chief(self) -> frozenset[int]:
        """Return the ops that other workers with a graph of their own do not run."""
        if self.compiled.exchange is None:
            return frozenset()
        common = {each.name for each in step_ops(self.compiled, of_chief=False)}
        return frozenset(at for at, each in enumerate(self.ops) if each.name not in common)

    def _in_loop(self) -> frozenset[str]:
        """Return the ops that run once for each micro-batch."""
        if self.compiled.plan.micro_batches == 1:
            return frozenset()
        found: set[str] = set()
        pending = [each for each in self.ops if each.type in _LOOP_STARTS]
        while pending:
            op = pending.pop()
            if op.name in found or op.type in _LOOP_ENDS or op.name not in self.numbers:
                continue
            found.add(op.name)
            pending += [user for tensor in op.outputs for user in tensor.consumers()]
        return frozenset(found)

    def _op(self, op: Any, *, looped: bool) -> TimedOp:
        entry = self.compiled.ledger.entries[op.name]
        signature, operations, moved = self._work(op, entry.clone)
        return TimedOp(
            name=op.name,
            signature=signature,
            device=entry.device,
            flops=operations,
            bytes=moved,
            times=self.compiled.plan.micro_batches if looped else 1,
            clone=entry.clone,
            scope=self._scope(op.name, entry.clone),
            rule=entry.placed.reason.root.text,
            enters=self._mutex(op) if op.type == "MutexLock" else "",
            leaves=self._mutex(op.inputs[0].op) if op.type == "ConsumeMutexLock" else "",
        )

    def _work(self, op: Any, clone: int | None) -> Work:
        """Return the work of an op; that of a tower is found once for all towers with these shapes."""
        shaped = self._shaped(op)
        if clone is None:
            return self._work_of(op, shaped)
        key = (
            op.name.removeprefix(f"{self.compiled.plan.towers[clone].scope}/"),
            op.type,
            *(each.shape for each in shaped.inputs),
            None,
            *(each.shape for each in shaped.outputs),
        )
        found = self.of_towers.get(key)
        if found is None:
            found = self.of_towers[key] = self._work_of(op, shaped)
        return found

    def _work_of(self, op: Any, shaped: Any) -> Work:
        signature, operations, moved = work_of_op(op, shaped)
        return self._one_of_each(signature), operations, moved

    def _one_of_each(self, signature: Signature) -> Signature:
        """Return the same record for equal signatures, which are compared often."""
        return self.signatures.setdefault(signature, signature)

    def _mutex(self, lock: Any) -> str:
        """Return the name of the mutex that an op locks; each device has its own by a name."""
        device = self.compiled.ledger.entries[lock.name].device
        return f"{device.ref}:{_text(lock.inputs[0].op.get_attr('shared_name'))}"

    def _shaped(self, op: Any) -> Any:
        """Return the op with the shapes that it has in a loop, and with numbers of rows."""
        same = self.shaped is self.compiled.graph
        return self.counts.sized(op if same else self.shaped.get_operation_by_name(op.name))

    def _scope(self, name: str, clone: int | None) -> str:
        """Return the first two levels of the name of an op, without the scope of its clone."""
        return scope_of(name, self.compiled.plan.towers[clone].scope if clone is not None else "")

    def _arrows(self) -> Iterator[Arrow]:
        sizes: dict[str, int] = {}
        for target, op in enumerate(self.ops):
            merges = op.type == _BACK[1]
            for tensor in op.inputs:
                source = self.numbers.get(tensor.op.name)
                if source is None or (merges and tensor.op.type == _BACK[0]):
                    continue
                name = tensor.name
                size = sizes.get(name)
                if size is None:
                    size = sizes[name] = 0 if tensor.dtype in HANDLES else self._bytes(tensor)
                yield Arrow(source, target, name, size)
            for before in op.control_inputs:
                if before.name in self.numbers:
                    yield Arrow(self.numbers[before.name], target)

    def _bytes(self, tensor: Any) -> int:
        """Return the bytes of a tensor, or 0 if they are not known."""
        made = self._shaped(tensor.op).outputs
        return tensor_bytes(made[tensor.value_index] if tensor.value_index < len(made) else tensor) or 0


def work_of_op(op: Any, shaped: Any) -> Work:
    """Return what the time of an op depends on, its floating point operations, and the bytes that it moves.

    Args:
        op: The op.
        shaped: The same op with known shapes.
    """
    inputs, outputs = _shapes(shaped.inputs), _shapes(shaped.outputs)
    attributes = _attributes(op)
    transposed = any(attributes.get(name) == "True" for name in ("transpose_a", "adj_x"))
    moved = [each for each in (*shaped.inputs, *shaped.outputs) if each.dtype not in HANDLES]
    moves = op.type not in PASSED_ON
    return (
        _signature(op, shaped, attributes),
        flops(op.type, inputs, outputs, transposed=transposed),
        sum(tensor_bytes(each) or 0 for each in moved) + _variable_bytes(op) if moves else 0,
    )


def _is_own(entry: Entry, variables: Container[str]) -> bool:
    """Whether each worker with a graph of its own has an op on its own devices.

    It does not have what follows a variable, and so is beside it: updates, look-ups in a table, and what
    follows these, such as the sum of the gradients of the rows. But other sums of gradients of its own clones
    follow an op of a tower, pieces of a variable are joined at a tower, and statistics are cut there.
    """
    reason = entry.placed.reason
    if _is_beside(reason, variables):
        return False
    if (entry.role == "aggregate" and reason.kind == "follows") or entry.role == "read":
        return True
    if reason.text.startswith("clones "):
        return True
    return entry.role in _OWN or (reason.kind == "default" and reason.text.startswith("optimizer "))


def _is_beside(reason: Reason, variables: Container[str]) -> bool:
    """Whether a thing is where a variable is, because it follows it, or something that does."""
    if reason.kind == "follows" and reason.text in variables:
        return True
    return reason.cause is not None and _is_beside(reason.cause, variables)


def _attributes(op: Any) -> dict[str, str]:
    """Return the attributes of an op on which its time depends, in the order of `_TOLD`."""
    possible = _told_of(op.type)
    given = op.node_def.attr if possible else ()  # TensorFlow writes the whole record at each access
    return {name: _text(op.get_attr(name)) for name in possible if name in given}


@cache
def _told_of(kind: str) -> tuple[str, ...]:
    """Return the attributes in `_TOLD` that ops of a type can have."""
    definition = op_definition(kind)
    if definition is None:  # a function that is called under its name
        return _TOLD
    known = {each.name for each in definition.attr}
    return tuple(name for name in _TOLD if name in known)


def _signature(op: Any, shaped: Any, attributes: Mapping[str, str]) -> Signature:
    """Return what the time of an op of a graph depends on.

    Args:
        op: The op.
        shaped: The same op with known shapes.
        attributes: What `_attributes` returns for it.
    """
    kinds = tuple(f"{each.dtype.name}{_shape_text(each)}" for each in shaped.inputs)
    told = [f"{name}={value}" for name, value in attributes.items()]
    if op.type == "BiasAdd" and op.inputs[0].op.type in _CONVOLUTIONS:  # TensorFlow makes one op of both
        before = op.inputs[0].op
        of = _signature(before, shaped.inputs[0].op, _attributes(before))
        told.append(f"after {of.type}({', '.join(of.inputs)}; {of.detail})")
    if op.type in SIZED_BY_VALUES:
        told.append(f"to {_shape_text(shaped.outputs[0])}")
    if not op.inputs and op.outputs:
        kinds = tuple(f"{each.dtype.name}{_shape_text(each)}" for each in shaped.outputs)
    return Signature(op.type, kinds, " ".join(told))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_text(each) for each in value)
    return value.decode() if isinstance(value, bytes) else str(getattr(value, "name", value))


def _shape_text(tensor: Any) -> str:
    if tensor.shape.rank is None:
        return "[...]"
    return "[" + ",".join("?" if each is None else str(each) for each in tensor.shape.as_list()) + "]"


def _shapes(tensors: Iterable[Any]) -> list[tuple[int, ...] | None]:
    return [tuple(each.shape.as_list()) if each.shape.is_fully_defined() else None for each in tensors]


def _variable_bytes(op: Any) -> int:
    """Return the bytes of the variables that an op updates, whose handles have no size of their own."""
    if not op.type.startswith(("ResourceApply", "Assign")):
        return 0
    updated = [each.op for each in op.inputs if each.op.type == "VarHandleOp"]
    return sum(_handle_bytes(each.node_def.attr) for each in updated)


def _handle_bytes(attributes: Mapping[str, Any]) -> int:
    import tensorflow as tf

    if attributes["shape"].shape.unknown_rank:
        return 0
    size: int = tf.as_dtype(attributes["dtype"].type).size
    for each in attributes["shape"].shape.dim:
        size *= max(0, each.size)
    return size


def _ancestors(ends: Iterable[Any]) -> frozenset[str]:
    pending, seen = list(ends), set()
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen.add(op.name)
            pending += [each.op for each in op.inputs]
            pending += op.control_inputs
    return frozenset(seen)


def forecast_time(compiled: CompiledGraph, profile: Profile | None) -> StepForecast | None:
    """Return the forecast of the time of a step, or None if nothing is known to forecast it from.

    Args:
        compiled: The graph.
        profile: The profile of the machine; without one, the spec must name its hardware (`devices.kind`).
    """
    devices = compiled.plan.spec.devices
    if profile is None and devices.kind is None:
        return None
    work = timed_step(compiled)
    costs = choose_costs(work, devices, profile, cores())
    return forecast_step(work, costs) if costs is not None else None

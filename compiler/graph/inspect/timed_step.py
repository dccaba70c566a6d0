"""The work of a step of a compiled graph, as records for the forecast of its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from compiler.graph.inspect.step import HANDLES, step_ops
from compiler.graph.inspect.transfers import tensor_bytes
from compiler.graph.session_options import cores, session_config
from compiler.plan import WorkerPlan
from compiler.time.costs import choose_costs
from compiler.time.flops import flops
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.work import Arrow, Signature, StepWork, TimedOp

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.time.profile import Profile
    from dsl import ir

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

_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
_LOOP_STARTS, _LOOP_ENDS, _BACK = ("Enter", "RefEnter"), ("Exit", "RefExit"), ("NextIteration", "Merge")


def can_be_timed(compiled: CompiledGraph) -> bool:
    """Whether the step of a graph is one run of a session, so that its time can be forecast."""
    return not isinstance(compiled.plan, WorkerPlan)


def timed_step(compiled: CompiledGraph) -> StepWork:
    """Return the work of a step of a graph that has all clones.

    Args:
        compiled: The graph; see `can_be_timed`.
    """
    return _Reader(compiled).read()


@define
class _Reader:
    compiled: CompiledGraph
    ops: list[Any] = field(factory=list, repr=False)
    numbers: dict[str, int] = field(factory=dict, repr=False)

    def read(self) -> StepWork:
        needed = {each.name for each in step_ops(self.compiled)}
        needed |= {name for loop in self._loops() for name in loop}
        self.ops = [each for each in self.compiled.graph.get_operations() if each.name in needed]
        self.numbers = {each.name: at for at, each in enumerate(self.ops)}
        looped = self._in_loop()
        plan, config = self.compiled.plan, session_config(self.compiled.plan)
        return StepWork(
            ops=tuple(self._op(each, looped=each.name in looped) for each in self.ops),
            arrows=tuple(self._arrows()),
            devices=plan.topology.devices,
            one_process=plan.emulate or not plan.spec.devices.jobs,
            one_machine=_one_machine(plan.spec.devices.jobs),
            emulated=plan.emulate,
            op_threads=config.inter_op_parallelism_threads,
            inner_threads=config.intra_op_parallelism_threads,
            loops=tuple(tuple(sorted(self.numbers[name] for name in loop)) for loop in self._loops()),
        )

    def _loops(self) -> list[frozenset[str]]:
        """Return the ops that each clone repeats by itself, if clones do."""
        return [_ancestors([each.train_op, each.data_loss.op]) for each in self.compiled.train_loops]

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
        inputs, outputs = _shapes(op.inputs), _shapes(op.outputs)
        transposed = any(_flag(op, name) for name in ("transpose_a", "adj_x"))
        moved = [each for each in (*op.inputs, *op.outputs) if each.dtype not in HANDLES]
        return TimedOp(
            name=op.name,
            signature=signature(op),
            device=entry.device,
            flops=flops(op.type, inputs, outputs, transposed=transposed),
            bytes=sum(tensor_bytes(each) or 0 for each in moved) + _variable_bytes(op),
            times=self.compiled.plan.micro_batches if looped else 1,
            clone=entry.clone,
            scope=self._scope(op.name, entry.clone),
            rule=entry.placed.reason.root.text,
        )

    def _scope(self, name: str, clone: int | None) -> str:
        """Return the first two levels of the name of an op, without the scope of its clone."""
        scope = self.compiled.plan.towers[clone].scope if clone is not None else ""
        inner = name.removeprefix(f"{scope}/") if scope else name
        return "/".join(inner.split("/")[:-1][:2]) or inner

    def _arrows(self) -> Iterator[Arrow]:
        for target, op in enumerate(self.ops):
            for tensor in op.inputs:
                if (tensor.op.type, op.type) != _BACK:
                    size = 0 if tensor.dtype in HANDLES else tensor_bytes(tensor) or 0
                    yield Arrow(self.numbers[tensor.op.name], target, tensor.name, size)
            for before in op.control_inputs:
                if before.name in self.numbers:
                    yield Arrow(self.numbers[before.name], target)


def _one_machine(jobs: Sequence[ir.Job]) -> bool:
    """Whether all tasks are on one machine: the launcher's if they have no addresses, else that of all."""
    return len({host.rpartition(":")[0] for job in jobs for host in job.hosts}) <= 1


def signature(op: Any) -> Signature:
    """Return what the time of an op of a graph depends on."""
    kinds = tuple(f"{each.dtype.name}{_shape_text(each)}" for each in op.inputs)
    told = [f"{name}={_text(op.get_attr(name))}" for name in _TOLD if name in op.node_def.attr]
    if op.type == "BiasAdd" and op.inputs[0].op.type in _CONVOLUTIONS:  # TensorFlow makes one op of both
        of = signature(op.inputs[0].op)
        told.append(f"after {of.type}({', '.join(of.inputs)}; {of.detail})")
    if not op.inputs and op.outputs:
        kinds = tuple(f"{each.dtype.name}{_shape_text(each)}" for each in op.outputs)
    return Signature(op.type, kinds, " ".join(told))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_text(each) for each in value)
    return value.decode() if isinstance(value, bytes) else str(getattr(value, "name", value))


def _flag(op: Any, name: str) -> bool:
    return name in op.node_def.attr and bool(op.get_attr(name))


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
    if not can_be_timed(compiled):
        return None
    devices = compiled.plan.spec.devices
    if profile is None and devices.kind is None:
        return None
    work = timed_step(compiled)
    costs = choose_costs(work, devices, profile, cores())
    return forecast_step(work, costs) if costs is not None else None

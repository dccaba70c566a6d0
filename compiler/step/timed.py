"""The ops of a step as the forecast of time has them: what each costs, and where it runs."""

from __future__ import annotations

from compiler.step.record import ITEM_BYTES, Op, Tensor
from compiler.time.flops import PASSED_ON, flops
from compiler.time.work import SIZED_BY_VALUES, Signature, TimedOp, scope_of


def timed_op(op: Op, tower: str = "") -> TimedOp:
    """Return an op with its cost.

    Args:
        op: The op.
        tower: The scope of its clone, or nothing.
    """
    moved = sum(each.bytes or 0 for each in (*op.inputs, *op.outputs) if each.dtype in ITEM_BYTES)
    if op.type.startswith("Assign"):
        moved += sum(Tensor("", *each.holds).bytes or 0 for each in op.inputs if each.holds is not None)
    return TimedOp(
        op.name,
        _signature(op),
        op.placed.device,
        flops(op.type, [each.known_shape for each in op.inputs], [each.known_shape for each in op.outputs]),
        0 if op.type in PASSED_ON else moved,
        clone=op.clone,
        scope=scope_of(op.name, tower),
    )


def _signature(op: Op) -> Signature:
    told = [f"DstT={op.attributes['DstT']}"] if op.type == "Cast" else []
    if op.type in SIZED_BY_VALUES:
        told.append(f"to {op.outputs[0].text.removeprefix(op.outputs[0].dtype)}")
    return Signature(op.type, tuple(each.text for each in op.inputs or op.outputs), " ".join(told))

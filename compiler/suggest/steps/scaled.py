"""An op of a clone with another number of examples."""

from __future__ import annotations

from collections.abc import Collection

from attrs import evolve

from compiler.time.work import TimedOp


def scaled(op: TimedOp, old: int, new: int, kept: Collection[int], whole: int) -> TimedOp:
    """Return an op of a tower as it is with another batch.

    A tensor is taken to have examples if its first axis is a multiple of the batch. What an op does and moves
    grows with the largest of these.

    Args:
        op: The op.
        old: The examples of a micro-batch of its clone.
        new: The examples of the other one.
        kept: The inputs that are weights, by number.
        whole: The bytes of these, and of the gradient of a weight that the op makes.
    """
    inputs = tuple(
        each if at in kept else _with_batch(each, old, new) for at, each in enumerate(op.signature.inputs)
    )
    if inputs == op.signature.inputs:
        return op
    return evolve(
        op,
        signature=evolve(op.signature, inputs=inputs),
        flops=op.flops * new // old,
        bytes=max(0, op.bytes - whole) * new // old + min(whole, op.bytes),
    )


def _with_batch(text: str, old: int, new: int) -> str:
    """Return the type and shape of a tensor with another number of examples."""
    kind, bracket, rest = text.partition("[")
    first, comma, others = rest.rstrip("]").partition(",")
    if not bracket or not first.isdigit() or int(first) % old or first == "0":
        return text
    if kind.startswith("int32") and not comma and int(first) != old:  # a shape, or numbers of axes
        return text
    return f"{kind}[{int(first) // old * new}{comma}{others}]"

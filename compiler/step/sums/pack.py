"""Packing: small gradients of a step are summed together, in buckets of about a given size."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from attrs import define, field, frozen

from compiler.step.record import Rows, Tensor, Value
from compiler.step.sums.base import Aggregation, Reduction
from compiler.step.values import dense, pack, unpack, values_of
from compiler.topology import Device


@frozen
class _Kind:
    """What the gradients of one bucket have in common: type, places where they are made, and destinations.

    Parts of gradients that one clone needs have that clone in common, too.
    """

    dtype: str
    homes: tuple[Device, ...]
    destinations: tuple[Device, ...]
    owner: int | None


@define
class _Bucket:
    members: list[int] = field(factory=list)
    bytes: int = 0


def reduce_packed(reductions: Sequence[Reduction], aggregation: Aggregation, size: int) -> list[list[Value]]:
    """Return the sums of each of `reductions`.

    Consecutive dense gradients of one type, with the same places, fill buckets of up to `size` bytes, so that
    a bucket is summed as soon as its last gradient has been computed. A gradient that is as large as a
    bucket, or sparse, is summed by itself.

    Args:
        reductions: The gradients, in the order in which backpropagation finishes them.
        size: The bytes of a bucket.
    """
    found: dict[int, list[Value]] = {}
    for number, members in enumerate(fill_buckets(reductions, size)):
        parts = [reductions[at] for at in members]
        if len(parts) == 1:
            found[members[0]] = aggregation(parts[0])
        else:
            found |= dict(zip(members, _reduce_bucket(parts, aggregation, number), strict=True))
    return [found[at] for at in range(len(reductions))]


def fill_buckets(reductions: Sequence[Reduction], size: int) -> list[list[int]]:
    """Return which sums go together: consecutive ones of one kind, as many as a bucket can hold.

    Args:
        reductions: The sums of a step, in the order in which they are made.
        size: The size of a bucket in bytes. A gradient of this size or of unknown size has a bucket of its
            own.

    Returns:
        The positions in `reductions` of the members of each bucket, in the order of the last ones.
    """
    open_buckets: dict[Hashable, _Bucket] = {}
    full: list[list[int]] = []
    for at, each in enumerate(reductions):
        weight = None if isinstance(each.values[0], Rows) else each.values[0].bytes  # rows may be any number
        if weight is None or weight >= size:
            full.append([at])
            continue
        bucket = open_buckets.setdefault(_kind(each), _Bucket())
        if bucket.bytes + weight > size:
            full.append(bucket.members)
            bucket = open_buckets[_kind(each)] = _Bucket()
        bucket.members.append(at)
        bucket.bytes += weight
    full += [bucket.members for bucket in open_buckets.values()]
    return sorted(full, key=lambda members: members[-1])


def _kind(reduction: Reduction) -> _Kind:
    return _Kind(
        values_of(reduction.values[0]).dtype,
        tuple(each.device for each in reduction.homes),
        tuple(each.device for each in reduction.destinations),
        reduction.owner,
    )


def _reduce_bucket(parts: Sequence[Reduction], aggregation: Aggregation, number: int) -> list[list[Value]]:
    """Reduce the flattened gradients of a bucket as one; return the sums of each of them."""
    first = parts[0]
    name = f"bucket_{number}"
    packed = [
        pack(first.writer, f"aggregate/{name}/pack_{rank}", _tensors(parts, rank), home)
        for rank, home in enumerate(first.homes)
    ]
    bucket = Reduction(name, packed, first.homes, first.destinations, first.writer, number, first.owner)
    unpacked = [_unpacked(parts, at, total, bucket) for at, total in enumerate(aggregation(bucket))]
    return [list(each) for each in zip(*unpacked, strict=True)]


def _unpacked(parts: Sequence[Reduction], at: int, total: Value, bucket: Reduction) -> list[Value]:
    shapes = [each.known_shape or () for each in _tensors(parts, 0)]
    writer, place, scope = bucket.writer, bucket.destinations[at], bucket.inner(f"unpack_{at}")
    return [*unpack(writer, scope, dense(total), shapes, place)]


def _tensors(parts: Sequence[Reduction], rank: int) -> list[Tensor]:
    """Return the values of a clone for several sums, none of which is of rows."""
    return [dense(each.values[rank]) for each in parts]

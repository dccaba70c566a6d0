"""Memory that is forecast, held against the memory that a spec gives."""

from __future__ import annotations

from attrs import evolve

from compiler.conditions import has_limits, too_full
from compiler.report.devices import pools
from compiler.report.terminal import fullness
from compiler.report.view import View
from dsl import ir
from tests.placement_maps import make_map
from tests.support import classifier

KIB = 1024


def _spec(**memory: int) -> ir.Spec:
    spec = classifier()
    return evolve(spec, devices=evolve(spec.devices, **memory))


def test_gpus_that_are_alike_share_a_warning() -> None:
    """Each GPU has memory of its own; those that need equally much are named together, others apart."""
    placement = make_map(3)
    devices = [
        evolve(each, step_bytes=0, memory_bytes=size * KIB, memory_limit=8 * KIB)
        for each, size in zip(placement.devices, (9, 12, 12, 7), strict=True)
    ]
    spec, placement = _spec(gpu_memory=8 * KIB), evolve(placement, devices=tuple(devices))
    messages = [each.message for each in too_full(spec, placement)]
    assert messages == [
        "a step needs 9.00 KiB on `cpu[0]`, 1.00 KiB more than `cpu_memory`",
        "a step needs 12.0 KiB on each of `gpu[0..1]`, 4.00 KiB more than `gpu_memory`",
    ]
    assert fullness(placement, View()) == [
        "memory                 forecast  there is    full",
        "cpu[0]                 9.00 KiB  8.00 KiB  112.5%",
        "gpu[0..1] (each of 2)  12.0 KiB  8.00 KiB  150.0%",
        "gpu[2]                 7.00 KiB  8.00 KiB   87.5%",
    ]


def test_one_kind_of_device_with_a_memory_is_a_limit() -> None:
    """Then the memory of a step is forecast although nobody asked for it."""
    assert has_limits(_spec(gpu_memory=KIB))
    assert has_limits(_spec(cpu_memory=KIB))
    assert not has_limits(_spec())


def test_without_a_limit_or_a_forecast_nothing_is_said() -> None:
    """Memory that no spec gives, and maps of graphs that nobody forecast, have no line."""
    placement = make_map(1)
    assert pools(placement) == ()
    limited = evolve(placement, devices=tuple(evolve(each, memory_limit=KIB) for each in placement.devices))
    known = all(each.memory_bytes is not None for each in placement.devices)
    assert bool(pools(limited)) == known
    assert fullness(placement, View()) == []

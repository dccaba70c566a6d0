"""The time of a step of many clones by kinds: the means of what is forecast for each device and link."""

from __future__ import annotations

import pytest

from compiler.kinds.forecasts import with_time
from compiler.mapping.records import DeviceTime, LinkTime, MapPathPart, MapTime
from tests.placement_maps import make_kinds

SERVER, GPU = "ps[0].cpu[0]", "worker[{task}].gpu[{device}]"


def forecast(*, folded: bool) -> MapTime:
    """Return the time of three tasks with two clones, with all of them or without the one in between."""
    tasks = (0, 2) if folded else (0, 1, 2)
    gpus = {f"worker[{task}].gpu[{at}]": 10.0 * task + at for task in tasks for at in (0, 1)}
    return MapTime(
        seconds=40.0,
        estimate=True,
        measured=0.25,
        source="v100",
        devices=(DeviceTime(SERVER, 30.0, 0.75), *(DeviceTime(ref, at, at / 40) for ref, at in gpus.items())),
        links=(
            *(LinkTime(SERVER, ref, at + 1, (at + 1) / 40, 64) for ref, at in gpus.items()),
            *(LinkTime(ref, SERVER, 1.0, 0.1, 0) for ref in gpus),  # which the map does not have
        ),
        by_scope=(MapPathPart("fc1", 20.0),),
        by_rule=(MapPathPart("clones -> worker[*].gpu[*]", 10.0),),
    )


@pytest.mark.parametrize(("folded", "means"), [(False, (15.0, 16.0)), (True, (20.0, 21.0))])
def test_times_of_a_kind_are_the_means_of_those_that_are_known(
    means: tuple[float, float], *, folded: bool
) -> None:
    """Clones on the first task are kinds of their own, and the last task may stand for those between."""
    time = forecast(folded=folded)
    found = with_time(make_kinds(3, 2), time).time
    assert found is not None
    assert (found.seconds, found.estimate, found.measured, found.source) == (40.0, True, 0.25, "v100")
    assert (found.by_scope, found.by_rule) == (time.by_scope, time.by_rule)
    expected = [0.0, 1.0, *means]
    assert [each.of for each in found.device_kinds] == [0, 1, 2, 3, 4]
    assert [each.like.ref for each in found.device_kinds] == [SERVER, *[GPU] * 4]
    assert [each.like.seconds for each in found.device_kinds] == pytest.approx([30.0, *expected])
    assert [each.like.busy for each in found.device_kinds] == pytest.approx(
        [0.75, *(each / 40 for each in expected)]
    )
    assert [each.of for each in found.link_kinds] == [1, 2, 3, 4]
    assert {(each.like.from_device, each.like.to_device) for each in found.link_kinds} == {(SERVER, GPU)}
    assert [each.like.seconds for each in found.link_kinds] == pytest.approx([each + 1 for each in expected])
    assert [each.like.busy for each in found.link_kinds] == pytest.approx(
        [(each + 1) / 40 for each in expected]
    )
    assert {each.like.bytes for each in found.link_kinds} == {64}


def test_what_the_forecast_does_not_have_is_left_out() -> None:
    """No device and no link of the kind is known."""
    time = forecast(folded=False)
    placement = make_kinds(3, 2)
    known = MapTime(1.0, False, 1.0, "a", time.devices[:2], time.links[:1], (), ())
    found = with_time(placement, known).time
    assert found is not None
    assert [each.of for each in found.device_kinds] == [0, 1]
    assert [each.of for each in found.link_kinds] == [1]

"""Maps of both versions are read; one that contradicts itself is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from compiler.kinds.kind_map import KindMap
from compiler.kinds.reading import read_map
from compiler.mapping.records import MapWorker
from dsl.files.typed_json import BadRecord
from tests.placement_maps import make_kinds, make_map


def test_both_versions_are_read(tmp_path: Path) -> None:
    """What is read is what was written."""
    file = tmp_path / "placement.json"
    for placement in (make_map(2), make_kinds()):
        file.write_text(placement.to_json())
        assert read_map(file) == placement


def test_a_map_does_not_grow_with_its_clones() -> None:
    """The text for 4,096 clones is that for 512 but for digits of numbers; expanded, it has every clone."""
    few, many = make_kinds(64, 8), make_kinds(512, 8)
    assert len(many.to_json()) < len(few.to_json()) + 40
    whole = few.expanded()
    assert len(whole.clones) == 512
    assert len(whole.ops) == 2 + 2 * 512
    assert whole.clones[-1].devices == ("worker[63].gpu[7]",)
    assert whole.ops[-1].name == "clone_511/fc1/MatMul"
    assert whole.ops[-1].clone == 511
    assert whole.devices[1].device == "/job:worker/replica:0/task:0/device:GPU:0"
    assert [each.to_device for each in whole.transfers] == [each.ref for each in whole.devices[1:]]
    assert whole.transfers[9].largest[0].name == "clone_9/fc1/kernel/read:0"


def test_workers_with_graphs_of_their_own_are_expanded() -> None:
    """Each has its clones, and the first of them has the ops that are listed."""
    found = evolve(make_kinds(64, 8), listed="worker:0").expanded()
    assert [each.listed for each in found.workers] == [True] + 63 * [False]
    assert found.workers[63] == MapWorker("worker:63", tuple(range(504, 512)), False)
    assert make_kinds().workers == ()


def _set(*path: str | int, to: object) -> tuple[tuple[str | int, ...], object]:
    return path, to


WRONG = {
    "with more than 100,000": _set("grid", "tasks", to=100_000),
    "`grid` without clones": _set("grid", "clones", to=0),
    "has `kinds[4]`, which is neither": _set("kinds", 4, "count", to=7),
    "has `kinds[3]`, which is neither": _set("kinds", 3, "tasks", "last", to=62),
    "clones of no task": _set("kinds", 4, "tasks", to=None),
    "has `ops[1].of`, which is the number of no kind": _set("ops", 1, "of", to=5),
    "has `variables[0].slots[0].of`": _set("variables", 0, "slots", 0, "of", to=9),
    "in `ops[3]`, which has a place in braces that is not known": _set("ops", 3, "like", "name", to="{x}"),
    "which has a brace that is not closed": _set("ops", 3, "like", "name", to="{clone"),
    "with a format": _set("ops", 3, "like", "name", to="{clone:03}"),
    "in `ops[4]`, which has a place in braces": _set("ops", 4, "like", "name", to="{device_1}"),
    "a number of what its kind is not of": _set("ops", 0, "like", "name", to="{task}"),
    "not among its `devices`": _set("ops", 3, "like", "requested", to="worker[{task}].gpu[7{device}]"),
    "`listed`, which is not the first task": _set("listed", to="worker:1"),
    "`devices[1].like.memory_limit`, which is zero": _set("devices", 1, "like", "memory_limit", to=0),
    "`devices[1].like.memory_limit`, which is negative": _set("devices", 1, "like", "memory_limit", to=-1),
    "names a device": _set("transfers", 0, "like", "to", to="cpu[0]"),
}


@pytest.mark.parametrize(
    ("op", "sums", "words"), [(-1, 2, ""), (0, 2, "what its kind is not of"), (-1, 0, "not known")]
)
def test_sums_of_tasks_are_numbered_where_there_are_some(
    op: int, sums: int, words: str, tmp_path: Path
) -> None:
    """A thing of a task may name one of its sums; a thing that is there once may not."""
    found = make_kinds(3, 2)
    content = json.loads(evolve(found, grid=evolve(found.grid, sums=sums)).to_json())
    content["ops"][op]["like"]["name"] = "fc1/group_{sum_1}"
    file = tmp_path / "placement.json"
    file.write_text(json.dumps(content))
    if not words:
        placement = read_map(file)
        assert isinstance(placement, KindMap)
        assert placement.expanded().ops[-1].name == "fc1/group_5"
        return
    with pytest.raises(BadRecord, match=words):
        read_map(file)


@pytest.mark.parametrize("words", WRONG)
def test_a_map_that_contradicts_itself_is_refused(words: str, tmp_path: Path) -> None:
    """It cannot be expanded."""
    content = json.loads(make_kinds().to_json())
    path, value = WRONG[words]
    part: Any = content
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    file = tmp_path / "placement.json"
    file.write_text(json.dumps(content))
    with pytest.raises(BadRecord) as fault:
        read_map(file)
    assert words.replace("a device of a clone that", "a place in braces that is not known") in str(
        fault.value
    )

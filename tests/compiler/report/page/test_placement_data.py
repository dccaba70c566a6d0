"""Devices, links, variables and lines of the spec as the page has them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from compiler.mapping.records import LinkTime, MapSlot, MapSpec, MapTensor
from compiler.report.page.data import (
    device_data,
    lines_of,
    page_data,
    rules_of,
    texts_of,
    texts_on_disk,
    transfer_data,
)
from compiler.report.page.tree import Details, Numbers
from dsl.source import Source, Span
from tests.compiler.report.page.pages import LINES, timed_step
from tests.placement_maps import CLONES, SPEC, VARIABLES, make_kinds, make_map
from tests.support import classifier, spec_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_device_has_all_of_its_figures() -> None:
    """What it holds, what a step needs and what its links carry; a share only if a time was forecast."""
    placement = make_map(2)
    first = evolve(
        placement.devices[0],
        other_bytes=7,
        step_bytes=8,
        memory_bytes=9,
        memory_limit=10,
        largest=(MapTensor("a:0", 4), MapTensor("b:0", 3)),
    )
    placement = evolve(placement, devices=(first, *placement.devices[1:]))
    found, *others = device_data(placement)
    kernels = 1152 + 20480
    assert found == {
        "ref": "cpu[0]",
        "device": "/job:localhost/replica:0/task:0/device:cpu[0]",
        "ops": first.ops,
        "variables": kernels,
        "slots": kernels,
        "memory": 9,
        "limit": 10,
        "step": 8,
        "other": 7,
        "largest": [["a:0", 4], ["b:0", 3]],
        "in": 2 * kernels,
        "in_unknown": 2,
        "out": 2 * (kernels + 2048),
        "out_unknown": 0,
        "busy": None,
    }
    assert [each["ref"] for each in others] == ["gpu[0]", "gpu[1]"]
    timed = evolve(placement, time=timed_step().for_map("p"))
    assert device_data(timed)[0]["busy"] == pytest.approx(10 / 28)


def test_links_of_several_clones_share_the_names_of_their_tensors() -> None:
    """A list with the name of one clone is that of all; one with several names, or none, is its own."""
    placement = make_map(2)
    of_clone = [(MapTensor(f"clone_{at}/x:0", 64), MapTensor(f"clone_{at}/y:0", 8)) for at in (0, 1)]
    of_both = (MapTensor("clone_0/x:0", 64), MapTensor("clone_1/x:0", 64))
    lists = [*of_clone, of_both, (MapTensor("clone_1", 4),)]
    links = tuple(evolve(each, largest=own) for each, own in zip(placement.transfers, lists, strict=True))
    busy = LinkTime("cpu[0]", "gpu[1]", 0.01, 0.123456, 64)
    time = evolve(timed_step().for_map("p"), links=(busy,))
    known = Numbers()
    places = Numbers({"cpu[0]": 0, "gpu[0]": 1, "gpu[1]": 2})
    kernels = 1152 + 20480
    found = transfer_data(evolve(placement, transfers=links, time=time), places, known)
    assert found == [
        [0, 1, 3, kernels + 2048, 0, 0, 0.0, 0],
        [0, 2, 3, kernels + 2048, 0, 0, 0.1235, 1],
        [1, 0, 2, kernels, 1, 1, 0.0, -1],
        [2, 0, 2, kernels, 1, 2, 0.0, -1],
    ]
    assert known.values() == [
        (("clone_{}/x:0", 64), ("clone_{}/y:0", 8)),
        (("clone_0/x:0", 64), ("clone_1/x:0", 64)),
        (("clone_1", 4),),
    ]
    untimed = transfer_data(evolve(placement, transfers=links), places, Numbers())
    assert [each[6] for each in untimed] == [None] * 4


def test_the_facts_and_the_variables_of_a_map() -> None:
    """Numbers are spelled with what they count; a variable has its copies, its slots and its group."""
    placement = make_map(2)
    first, second = placement.variables
    copied = evolve(first, copies=("gpu[0]", "gpu[1]"), group="*/kernel", slots=(MapSlot("a", 5, "gpu[1]"),))
    data = page_data(evolve(placement, variables=(copied, second)), LINES, Details())
    assert data["title"] == f"Placement of {SPEC}"
    assert data["facts"] == [
        "sync, in_graph, add_n, mean",
        "2 clones",
        f"{len(placement.ops)} ops",
        "2 variables",
        "TensorFlow 2.21.0",
        "sha256 000000000000",
    ]
    assert data["variables"] == {
        "conv1/kernel": [(3, 3, 1, 32), "float32", 1152, True, [1, 2], [["a", 5, 2]], "*/kernel"],
        "logits/kernel": [
            (512, 10),
            "float32",
            20480,
            True,
            [],
            [["logits/kernel/Adam", 20480, 0]],
            None,
        ],
    }
    assert (data["model"], data["step"], data["measures"]) == (None, None, ["ops", "held"])
    assert data["files"] == [SPEC]
    assert data["lines"] == [LINES[SPEC]]
    assert data["places"] == ["cpu[0]", "gpu[0]", "gpu[1]"]


def test_the_lines_around_those_of_rules() -> None:
    """Three before and after, within the text; files that are not known have none."""
    numbered = "".join(f"line {number}\n" for number in range(1, 30))
    placement = make_map(2)
    assert {CLONES, VARIABLES} <= set(rules_of(placement))
    assert {CLONES, VARIABLES} <= set(rules_of(make_kinds()))
    found = lines_of(placement, {SPEC: numbered})
    assert found == {SPEC: {number: f"line {number}" for number in range(9, 17)}}
    assert lines_of(placement, {"other": numbered}) == {}
    short = lines_of(placement, {SPEC: numbered.partition("line 14\n")[0].replace("\n", "\r\n")})
    assert short == {SPEC: {number: f"line {number}" for number in range(9, 14)}}


def test_the_lines_of_other_places() -> None:
    """Their files are known from them, unless another text is given."""
    source = Source("own.tfdeploy", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    span = Span(source, source.text.index("two"), source.text.index("two") + 3)
    found = lines_of(make_map(1), {}, [span])
    words = ["one", "two", "three", "four", "five"]
    assert found == {"own.tfdeploy": dict(enumerate(words, start=1))}
    given = lines_of(make_map(1), {"own.tfdeploy": "a\nb\n"}, [span])
    assert given == {"own.tfdeploy": {1: "a", 2: "b"}}


def test_texts_that_have_the_rules() -> None:
    """Those of a spec that was read; or the file of a map, if it is the one that the map is of."""
    assert texts_of(classifier()) == {}
    spec = spec_of(
        'tfdeploy = 1\nmodel "m" {\n x = input(float32, [2])\n output = x\n}\nplace { variables -> cpu[0] }\n'
    )
    assert list(texts_of(spec)) == ["test.tfdeploy"]
    assert "variables -> cpu[0]" in texts_of(spec)["test.tfdeploy"]


def test_the_file_of_a_map_is_read_if_it_is_the_one_that_the_map_is_of(tmp_path: Path) -> None:
    """By its digest; signs that are no text are replaced."""
    file = tmp_path / "a.tfdeploy"
    raw = b"place {} \xff\n"
    placement = evolve(make_map(1), spec=MapSpec(str(file), hashlib.sha256(raw).hexdigest()))
    assert texts_on_disk(placement) == {}
    file.write_bytes(raw)
    assert texts_on_disk(placement) == {str(file): "place {} \ufffd\n"}
    file.write_bytes(raw + b"\n")
    assert texts_on_disk(placement) == {}

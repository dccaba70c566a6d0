"""Devices, links, variables, the model and lines of the spec as the page has them.

What scripts of the page read stands in `tests/golden/page/`, with a line for each device, link or rule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from compiler.mapping.records import LinkTime, MapSlot, MapSpec, MapTensor, PlacementMap
from compiler.report.compare import compare
from compiler.report.page.data import (
    Side,
    diff_data,
    lines_of,
    page_data,
    places_of,
    rules_of,
    texts_of,
    texts_on_disk,
)
from compiler.report.page.tree import Details
from dsl import ir
from dsl.source import Source, Span
from tests.compiler.report.page.pages import LINES, model, timed_step
from tests.compiler.report.test_compare import MAPS
from tests.placement_maps import CLONES, SPEC, VARIABLES, make_kinds, make_map
from tests.support import classifier, spec_of


def whole() -> PlacementMap:
    """Return a map of which all figures of a device, a variable and a link are known, and the time."""
    placement = make_map(2)
    tensors = MapTensor("a:0", 4), MapTensor("b:0", 3)
    cpu, *gpus = placement.devices
    cpu = evolve(cpu, other_bytes=7, step_bytes=8, memory_bytes=9, memory_limit=10, largest=tensors)
    first, second = placement.variables
    copied = evolve(first, copies=("gpu[0]", "gpu[1]"), group="*/kernel", slots=(MapSlot("a", 5, "gpu[1]"),))
    lists = [(MapTensor(f"clone_{at}/x:0", 64), MapTensor(f"clone_{at}/y:0", 8)) for at in (0, 1)]
    lists += [(MapTensor("clone_0/x:0", 64), MapTensor("clone_1/x:0", 64)), (MapTensor("clone_1", 4),)]
    links = [evolve(each, largest=own) for each, own in zip(placement.transfers, lists, strict=True)]
    time = evolve(timed_step().for_map("p"), links=(LinkTime("cpu[0]", "gpu[1]", 0.01, 0.123456, 64),))
    return evolve(
        placement, devices=(cpu, *gpus), variables=(copied, second), transfers=tuple(links), time=time
    )


def details() -> Details:
    """Return the time and the model, with a layer of each kind."""
    found = model()
    weight = evolve(found.layers[1], kind="weight", call=ir.Call("weight"))
    assert [each.begin.line for each in places_of(found)] == [12, 12]
    return Details(time=timed_step(), model=evolve(found, layers=(found.layers[0], weight, found.layers[2])))


def written(data: dict[str, Any]) -> str:
    """Return the data of a page with a line for each item of its parts."""
    lines = []
    for name, value in data.items():
        parts = value.items() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        lines += [name, *(f"  {json.dumps(each)}" for each in parts)]
    return "".join(f"{line}\n" for line in lines)


PAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": lambda: page_data(make_map(2), LINES, Details()),
    "whole": lambda: page_data(whole(), LINES, details()),
    "kinds": lambda: page_data(make_kinds(3, 2), LINES, Details()),
    **{
        f"diff_{name}": lambda name=name: diff_data(  # type: ignore[misc]  # the name of this turn
            *(Side(label, each, LINES) for label, each in zip("ab", MAPS[name], strict=True)),
            compare(*MAPS[name]),
        )
        for name in ("a_variable_moved", "one_clone_to_two", "cut", "another_axis", "the_mode")
    },
}


@pytest.mark.parametrize("name", PAGES)
def test_data_of_a_page(name: str, golden: Callable[[str, str], None]) -> None:
    """All that scripts read; what is not known is null, and of many clones' tensors one list is there."""
    golden(f"page/{name}.txt", written(PAGES[name]()))


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


def test_texts_that_have_the_rules(tmp_path: Path) -> None:
    """Those of a spec that was read; or the file of a map, if its digest is that of the spec of the map."""
    assert texts_of(classifier()) == {}
    spec = spec_of(
        'tfdeploy = 1\nmodel "m" {\n x = input(float32, [2])\n output = x\n}\nplace { variables -> cpu[0] }\n'
    )
    assert list(texts_of(spec)) == ["test.tfdeploy"]
    assert "variables -> cpu[0]" in texts_of(spec)["test.tfdeploy"]
    file = tmp_path / "a.tfdeploy"
    raw = b"place {} \xff\n"
    placement = evolve(make_map(1), spec=MapSpec(str(file), hashlib.sha256(raw).hexdigest()))
    assert texts_on_disk(placement) == {}
    file.write_bytes(raw)
    assert texts_on_disk(placement) == {str(file): "place {} \ufffd\n"}
    file.write_bytes(raw + b"\n")
    assert texts_on_disk(placement) == {}

"""What layers have learnt before training comes back from its file, and only to the layers that learnt it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import refusal
from tfdeploy.runtime.adapted import LayerRecord, Numbers, read_layer_states, write_layer_states

NODE: Any = SimpleNamespace(span=None)
STATES: list[dict[str, Any]] = [
    {"vocabulary": ("a", "b")},
    {"vocabulary": (3, 1)},
    {"vocabulary": ()},
    {"mean": ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), "variance": 0.5},
    {"vocabulary": ("a",), "idf_weights": (0.25, 0.75)},
    {},
]


@pytest.mark.parametrize("state", STATES, ids=repr)
def test_a_state_comes_back_as_it_was(tmp_path: Path, state: dict[str, Any]) -> None:
    """Words, whole numbers, numbers, and arrays of any shape."""
    path = tmp_path / "layer_states.json"
    write_layer_states(path, {"block/layer": LayerRecord.of(state, "settings"), "other": LayerRecord("x")})
    found = read_layer_states(path, {"block/layer": (NODE, "settings")})
    assert list(found) == ["block/layer"]
    assert found["block/layer"].state == state


def test_arrays_are_kept_with_the_last_axis_changing_fastest() -> None:
    """As NumPy has them."""
    record = LayerRecord.of({"mean": ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))}, "")
    assert record.numbers == {"mean": Numbers((3, 2), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))}


def test_the_file_can_be_read_by_people(tmp_path: Path) -> None:
    """It has a line for each field, and leaves out a vocabulary that there is not."""
    path = tmp_path / "layer_states.json"
    write_layer_states(path, {"layer": LayerRecord("now", words=("a",))})
    assert path.read_text() == (
        '{\n "layers": {\n  "layer": {\n   "settings": "now",\n   "words": [\n    "a"\n   ],\n'
        '   "numbers": {}\n  }\n }\n}\n'
    )


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (None, "its entry is missing or damaged"),
        (LayerRecord("now", numbers={"mean": Numbers((2,), (1.0,))}), "its entry is missing or damaged"),
        (LayerRecord("then"), "it was `then`, and is `now` now"),
    ],
)
def test_what_is_not_the_state_of_a_layer_is_refused(
    tmp_path: Path, record: LayerRecord | None, reason: str
) -> None:
    """The layer is named, also if it is not the first."""
    path = tmp_path / "layer_states.json"
    records = {"good": LayerRecord("now")} | ({} if record is None else {"bad": record})
    write_layer_states(path, records)
    found = refusal(read_layer_states, path, {"good": (NODE, "now"), "bad": (NODE, "now")})
    assert "`bad`" in found.message
    assert reason in "\n".join([found.message, *found.notes])


@pytest.mark.parametrize(("content", "reason"), [(None, "no such file"), ("{", "the file is not JSON")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str | None, reason: str) -> None:
    """With the reason, and the first layer that needs it."""
    path = tmp_path / "layer_states.json"
    if content is not None:
        path.write_text(content)
    found = refusal(read_layer_states, path, {"first": (NODE, "now"), "second": (NODE, "now")})
    said = "\n".join([found.message, *found.notes])
    assert reason in said
    assert "`first`" in said

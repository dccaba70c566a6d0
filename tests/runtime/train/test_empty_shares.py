"""A clone or worker whose share of the data has no example ends the run before it trains."""

from typing import Any

import pytest

import tfdeploy
from dsl.diagnostics import Diagnostic
from tests.runtime.conftest import Project
from tests.support import refusal

SPEC = """
tfdeploy = 1

model "m" {
  x = input(float32, [1])
  y = x -> Dense(1)
  loss = [x, y] -> MeanSquaredError()
}

data { train = SOURCE }
devices { DEVICES }
clones { batch = 2 }
update { optimizer = SGD(0.1) }
train { steps = 9, seed = 1 }
"""
EXAMPLES = """
import numpy as np
import tensorflow as tf

calls = 0

def some(first, later):
    global calls
    calls += 1
    for number in range(first if calls <= 6 else later):
        yield {"x": np.float32([number])}

def dataset(first, later):
    examples = lambda: some(first, later)
    return tf.data.Dataset.from_generator(examples, output_signature={"x": tf.TensorSpec([1], tf.float32)})
"""
WORKERS = 'job "ps" { tasks = 1 }\n job "worker" { tasks = 3 }'


def refused(project: Project, source: str, devices: str, **overrides: str) -> Diagnostic:
    """Return the error of a run, which has trained nothing."""
    project.write(SPEC.replace("SOURCE", source).replace("DEVICES", devices))
    (project.folder / "examples.py").write_text(EXAMPLES)
    (project.folder / "two.csv").write_text("x\n1\n2\n")
    pairs = {"train.directory": str(project.run_directory)}
    pairs |= {key.replace("__", "."): value for key, value in overrides.items()}
    spec = tfdeploy.load(project.spec, overrides=pairs, allow_python=True)
    return refusal(tfdeploy.run, spec, emulate=True)


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ('csv("two.csv", x = ["x"])', "two.csv"),
        ('csv("two.csv", x = ["x"]) -> shuffle(9) -> cache()', "two.csv"),
        ("synthetic(20, x = feature(float32, [1])) -> skip(3) -> shuffle(9) -> take(2)", "synthetic"),
        ('python("examples:some", first = 2, later = 2)', "examples:some"),
        ('python("examples:some", first = 9, later = 9) -> shuffle(9) -> skip(7)', "examples:some"),
        ('python("examples:dataset", first = 2, later = 2)', "examples:dataset"),
    ],
)
def test_fewer_examples_than_clones(project: Project, source: str, file: str) -> None:
    """With a share for each clone, the message names the clones that have none, and where examples are."""
    found = refused(project, source, "cpu = 5", data__per_clone="shard")
    assert found.code == "TFD703"
    assert found.message == "`train`: there is no example for clone 2, clone 3 and clone 4"
    (note,) = found.notes
    assert note.startswith("each of the 5 clones reads a share of its own of 2 examples in `")
    assert note.endswith(f"{file}`")
    assert found.span.text == f"train = {source}"


@pytest.mark.parametrize(
    "overrides",
    [
        {"update__replication": "in_graph"},
        {"update__replication": "between_graph"},
        {"update__mode": "async"},
        {"update__mode": "async", "update__replication": "in_graph"},
        {"update__mode": "local", "update__average_every": "2", "update__replication": "in_graph"},
    ],
    ids=lambda given: "-".join(given.values()),
)
def test_fewer_examples_than_workers(project: Project, overrides: dict[str, str]) -> None:
    """Workers that train by one graph or by one each have shares, in every mode."""
    found = refused(project, 'csv("two.csv", x = ["x"])', WORKERS, **overrides)
    assert (found.code, found.message) == ("TFD703", "`train`: there is no example for worker:2")
    found = refused(project, 'csv("two.csv", x = ["x"])', WORKERS, data__per_clone="shard", **overrides)
    assert found.message == "`train`: there is no example for clone 2 of worker:2"


@pytest.mark.parametrize("source", ["csv", "some", "dataset"])
def test_transforms_that_leave_nothing(project: Project, source: str) -> None:
    """Also behind a shuffle, and although the source does not say how many examples it has."""
    call = (
        'csv("two.csv", x = ["x"])'
        if source == "csv"
        else f'python("examples:{source}", first = 2, later = 2)'
    )
    found = refused(project, f"{call} -> shuffle(9) -> skip(2)", "cpu = 1")
    assert found.code == "TFD703"
    assert found.message.endswith("examples is left after the transforms")


@pytest.mark.family(every=3)
@pytest.mark.parametrize("function", ["some", "dataset"])
@pytest.mark.parametrize(("later", "whom"), [(0, ""), (2, " for clone 2")])
def test_a_later_pass_without_an_example(project: Project, function: str, later: int, whom: str) -> None:
    """Otherwise a function that gives less when it is called again would be called for ever."""
    source = f'python("examples:{function}", first = 4, later = {later})'
    overrides: dict[str, Any] = {"data__per_clone": "shard"} if whom else {}
    found = refused(project, source, "cpu = 3", **overrides)
    assert found.code == "TFD714"
    assert found.message.endswith(f"gives no example{whom} when it is called again")

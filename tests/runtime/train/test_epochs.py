"""An epoch over the digits, counted example by example, and examples that are changed at random."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import grammar
from compiler.graph.build import compile_graph
from compiler.pipeline import make_plan
from tests.runtime.conftest import DIGITS, SPEC, Project
from tests.support import largest_difference, rounding
from tfdeploy.runtime.session.data import feed_training, open_stream, splits_of
from tfdeploy.runtime.session.engine import Engine

COUNTED = """
tfdeploy = 1
model "counted" {{
  number = input(int64, [])
  image = input(float32, [64])
  digit = input(int32, [])
  logits = image -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  which = number -> Reshape([1])
  output = which
}}
data {{
  train = csv("train.csv", number = "number", image = "pixel_*", digit = "digit") {transforms} -> shuffle(256)
  test = csv("test.csv", number = "number", image = "pixel_*", digit = "digit") -> shuffle(256)
}}
devices {{ cpu = 4 }}
clones {{ count = 4, batch = {batch} }}
update {{ optimizer = SGD(0.1), mode = {mode} }}
train {{ seed = 4 }}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits, every row with its number."""
    folder = tmp_path_factory.mktemp("numbered")
    for name in ("train.csv", "test.csv"):
        with (DIGITS / name).open(newline="") as file:
            header, *rows = csv.reader(file)
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([["number", *header], *([at, *row] for at, row in enumerate(rows))])
    return folder


class Counting:
    """A spec with its data in a session, in which the numbers that reach each tower can be looked at."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        filled = {"transforms": "", "batch": 8, "mode": "sync", **settings}
        reading = grammar.read(folder / "counted.tfdeploy", text=COUNTED.format(**filled))
        assert reading.spec is not None, [each.message for each in reading.diagnostics]
        plan = make_plan(reading.spec)
        self.engine = Engine.start(compile_graph(plan))
        self.streams = {
            name: open_stream(plan, split, plan.model.inputs, training=name == "train", seed=4)
            for name, split in splits_of(reading.spec).items()
        }

    def steps(self, count: int) -> list[list[list[int]]]:
        """Make steps, and return what each clone had in each."""
        compiled = self.engine.compiled
        fetches = [[clone.outputs for clone in compiled.clones], compiled.train_op]
        run = self.engine.session.make_callable(fetches)
        return [[[int(each) for each in piece.ravel()] for piece in run()[0]] for _ in range(count)]

    def evaluated(self) -> Iterator[int]:
        """Yield the numbers that an evaluation has, batch by batch, until it ends."""
        evaluation = self.engine.compiled.evaluation
        run = self.engine.session.make_callable([evaluation.outputs, evaluation.count])
        self.engine.feed(evaluation.pipe, self.streams["test"], training=False)
        while True:
            try:
                numbers, count = run()
            except tf.errors.OutOfRangeError:
                return
            assert len(numbers) == count
            yield from (int(each) for each in numbers.ravel())


@pytest.mark.parametrize(("size", "batch"), [(1408, "8"), (1438, "[200, 200, 200, 119]")])
def test_an_epoch_has_each_example_once_through_four_towers(folder: Path, size: int, batch: str) -> None:
    """With a batch that divides the data, each epoch gives every example to one tower, in a new order."""
    counting = Counting(folder, transforms=f"-> take({size})", batch=batch)
    steps = size // counting.engine.compiled.plan.global_batch
    assert steps * counting.engine.compiled.plan.global_batch == size
    feed_training(counting.engine, counting.streams["train"], 0)
    orders = []
    for _ in range(2):
        made = counting.steps(steps)
        orders.append([number for step in made for piece in step for number in piece])
        assert Counter(orders[-1]) == dict.fromkeys(range(size), 1)
        assert all(len(piece) > 0 for step in made for piece in step)
    assert orders[0] != orders[1]
    counting.engine.close()


@pytest.mark.full
def test_without_a_gap_where_the_batch_does_not_divide(folder: Path) -> None:
    """Epoch follows epoch: 16 of them, of 1,438 examples each, fill a whole number of batches of 32."""
    counting = Counting(folder)
    feed_training(counting.engine, counting.streams["train"], 0)
    made = counting.steps(1438 * 16 // 32)
    numbers = [number for step in made for piece in step for number in piece]
    for epoch in range(16):
        assert Counter(numbers[epoch * 1438 : (epoch + 1) * 1438]) == dict.fromkeys(range(1438), 1)
    counting.engine.close()


@pytest.mark.family(every=3)
@pytest.mark.parametrize("batch", ["[1, 2, 3, 4]", "8", "100"])
def test_an_evaluation_has_each_example_once(folder: Path, batch: str) -> None:
    """Always, though 359 is divisible by nothing, and as often as it is made."""
    counting = Counting(folder, batch=batch)
    for _ in range(2):
        assert Counter(counting.evaluated()) == dict.fromkeys(range(359), 1)
    counting.engine.close()


def test_clones_that_update_by_themselves_have_each_example_once(folder: Path) -> None:
    """In async training too, whoever comes first takes what is next: nothing twice, nothing left out."""
    counting = Counting(folder, mode="async", transforms="-> take(1408)")
    feed_training(counting.engine, counting.streams["train"], 0)
    numbers = np.ravel(counting.steps(1408 // 32))
    assert Counter(numbers.tolist()) == dict.fromkeys(range(1408), 1)
    counting.engine.close()


CHANGES = """
    -> reshape(image, [8, 8, 1])
    -> random_crop(image, [8, 8], pad = 1)
    -> random_flip(image)
    -> random_color(image, brightness = 0.1, contrast = 0.2)
    -> cutout(image, 3)
    -> one_hot(digit, 10)
    -> mixup(image, digit)
"""
TEST = "    -> reshape(image, [8, 8, 1])\n    -> one_hot(digit, 10)\n"


def spec() -> str:
    """Return the spec of a classifier that draws no random numbers itself."""
    text = SPEC.replace("[64]", "[8, 8, 1]").replace("int32, []", "float32, [10]")
    text = text.replace("-> Dropout(0.1)", "").replace("logits = image", "logits = image\n    -> Flatten()")
    text = text.replace("SparseCategorical", "Categorical")
    start = text.index("  test = ")
    train, rest = text[:start], text[start:]
    last = "    -> scale(image, 1 / 16)\n"
    changed = train.replace("    -> shuffle(256)\n", "    -> shuffle(256)" + CHANGES)
    return changed + rest.replace(last, last + TEST, 1)


@pytest.mark.full
def test_random_examples_are_the_same_for_any_clones_and_after_a_run_goes_on(
    project: Project, make_project: Callable[[str], Project]
) -> None:
    """One clone, two, and two that stop in the middle of a pass end at the same weights."""
    one, two = make_project("one"), make_project("two")
    for each in (project, one, two):
        each.write(spec())
    steps = {"train__steps": 60}
    one.run(clones__count=1, clones__batch=32, devices__cpu=1, **steps)
    two.run(**steps)
    expected = two.variables(60)
    weights = {name: each for name, each in expected.items() if name.endswith(("kernel", "bias"))}
    assert weights
    single = {name: one.variables(60)[name] for name in weights}
    assert largest_difference(single, weights) < rounding(1000, 60)
    project.run(train__steps=50)
    assert project.run(**steps).resumed_from == 50
    found = project.variables(60)
    assert all(np.array_equal(found[name], value) for name, value in expected.items())

"""Slots that clones share are restored by any number of clones, and without the rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from compiler.graph.storage.saving import Saving, add_saving
from tests.support import CLASSIFIER, Training, examples, largest_difference, spec_of
from tfdeploy.runtime.session.checkpoint_files import ClientFiles, ServerFiles

LAYERS = '-> Flatten() -> Dense(5, name = "hidden")'
MOST = 600
"""The bytes that are written at once: a half of the largest slot, of 1,280 bytes, goes in two regions."""

Graph = tuple[Training, Saving]


def _graph(clones: int, rules: str) -> Graph:
    text = CLASSIFIER.format(clones=clones, batch=12 // clones, optimizer="Adam(1e-2)", layers=LAYERS)
    text = text.replace("cpu = 2", "cpu = 4") + f"place {{\n  {rules}\n}}\n"
    training = Training(spec_of(text, update__ema="0.9"), examples(24))
    return training, add_saving(training.compiled, most=MOST)


@pytest.fixture(
    scope="module",
    params=[(1, 3), pytest.param((1, 2, 3, 4), marks=pytest.mark.full)],
    ids=["few", "all"],
)
def graphs(request: pytest.FixtureRequest) -> Iterator[dict[str, Graph]]:
    """A graph for each number of clones, and one without a rule."""
    parts = "variables -> replicated\n  slots -> sharded(clones)"
    made = {f"{count} clones": _graph(count, parts) for count in request.param}
    made["whole"] = _graph(2, "variables -> cpu[0]")
    yield made
    for training, _ in made.values():
        training.session.close()


@pytest.mark.full
def test_any_number_of_clones_goes_on_from_any_other(graphs: dict[str, Graph], tmp_path: Path) -> None:
    """Weights, slots and averages are equal to the bit, and all tensors of a checkpoint are whole."""
    shapes = {name: value.shape for name, value in graphs["whole"][0].values().items()}
    for first, (training, saving) in graphs.items():
        training.steps(2)
        path = str(tmp_path / first.replace(" ", "-"))
        ServerFiles().write(training.session.run, saving, path)
        saved = training.values()
        reader = tf.train.load_checkpoint(path)
        found = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}
        assert found == shapes, first
        assert all((reader.get_tensor(name) == value).all() for name, value in saved.items())
        assert sum(name.endswith("ExponentialMovingAverage") for name in saved) == 4
        assert sum("/Adam" in name for name in saved) >= 8
        for second, (other, its_saving) in graphs.items():
            if second != first:
                files = ServerFiles() if second < first else ClientFiles()
                files.read(other.session.run, its_saving, path, list(saved))
                other.session.run(other.compiled.after_restore_op)
                assert largest_difference(other.values(), saved) == 0, (first, second)


@pytest.mark.full
def test_slots_of_three_clones_are_in_three_parts(graphs: dict[str, Graph]) -> None:
    """What is restored has really been cut, in as many parts as there are clones."""
    for name, (training, _) in graphs.items():
        parts = training.compiled.variables["hidden/kernel"].parts
        assert len(parts) == {"2 clones": 2, "3 clones": 3, "4 clones": 4}.get(name, 0), name

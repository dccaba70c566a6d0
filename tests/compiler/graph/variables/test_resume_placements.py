"""A checkpoint does not know where its variables were: every placement takes those of all others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from compiler.graph.storage.saving import MOST_AT_ONCE, Saving, add_saving
from tests.support import CLASSIFIER, CONVOLUTION, Training, examples, largest_difference, spec_of
from tfdeploy.runtime.session.checkpoint_files import ClientFiles, ServerFiles

PLACEMENTS = {
    "shared": "variables -> cpu[0]",
    "round_robin": "variables -> round_robin(cpu[*])",
    "replicated": "variables -> replicated",
    "mixed": 'variables -> cpu[1]\n  variables("conv1/*") -> replicated\n  slots("logits/*") -> cpu[0]',
    "sharded": "variables -> sharded(cpu[*])",
    "shards": 'variables("*/kernel") -> sharded(cpu[0..2], axis = 1)\n  slots -> cpu[3]',
    "slots over clones": "variables -> replicated\n  slots -> sharded(clones)",
    "slots over one clone": "variables -> replicated\n  slots -> sharded(clones)",
    "slots over three clones": "variables -> replicated\n  slots -> sharded(clones)",
    "groups": 'clones -> groups(cpu[*], size = 2)\n  ops("logits/*") -> group[1]',
}


CLONES = {"slots over one clone": 1, "slots over three clones": 3}
"""The number of clones, if it is not two."""

PARTS = {"sharded": 900, "mixed": 500, "slots over clones": 700, "slots over three clones": 700}
"""The bytes that a placement writes and restores at once, for those that do so in parts."""


def _data_suffixes(saving: Saving) -> list[str]:
    count = len(saving.groups)
    return [f".data-{at:05}-of-{count:05}" for at in range(count)]


class Graphs(dict[str, tuple[Training, Saving]]):
    """A graph for each placement, with a session on it, made when it is asked for."""

    def __missing__(self, name: str) -> tuple[Training, Saving]:
        count = CLONES.get(name, 2)
        text = CLASSIFIER.format(clones=count, batch=8, optimizer="Adam(1e-2)", layers=CONVOLUTION)
        text = f"{re.sub('cpu = .', 'cpu = 4', text)}place {{\n  {PLACEMENTS[name]}\n}}\n"
        training = Training(spec_of(text, update__ema="0.9"), examples(64))
        if name.startswith("slots") and count > 1:
            assert len(training.compiled.variables["logits/kernel"].parts) == count  # really cut
        self[name] = training, add_saving(training.compiled, most=PARTS.get(name, MOST_AT_ONCE))
        return self[name]


@pytest.fixture(scope="module")
def graphs() -> Iterator[Graphs]:
    """The graphs of all tests, whose sessions end with them."""
    made = Graphs()
    yield made
    for training, _ in made.values():
        training.session.close()


@pytest.mark.full
@pytest.mark.parametrize("first", PLACEMENTS)
def test_every_placement_goes_on_from_a_checkpoint_of_another(
    first: str, graphs: Graphs, tmp_path: Path
) -> None:
    """Weights, slots, averages and the step are those that were saved, in every copy."""
    training, saving = graphs[first]
    training.steps(3)
    path = str(tmp_path / "model.ckpt")
    ServerFiles().write(training.session.run, saving, path)
    assert {each.suffix for each in tmp_path.iterdir()} == {".index", *_data_suffixes(saving)}
    saved = training.values()
    for name in PLACEMENTS:
        other, its_saving = graphs[name]
        other.session.run(its_saving.restore_op, {its_saving.path: path})
        other.session.run(other.compiled.after_restore_op)
        assert largest_difference(other.values(), saved) == 0, name
        for variable in other.compiled.variables.values():
            copies, shard = other.session.run(variable.copies), variable.info.shard
            wanted = saved[variable.weight][() if shard is None else shard.index]
            assert all((each == wanted).all() for each in copies), name
        other.steps(1)
        assert other.values()["global_step"] == saved["global_step"] + 1


@pytest.mark.family(every=3)
@pytest.mark.parametrize("name", ["sharded", "shards", "slots over clones"])
def test_the_client_of_a_cluster_writes_and_reads_the_same(name: str, graphs: Graphs, tmp_path: Path) -> None:
    """Values that are fetched and fed by this process make the same checkpoint, whole and in parts."""
    training, saving = graphs[name]
    training.steps(2)
    path, files = str(tmp_path / "model.ckpt"), ClientFiles()
    files.write(training.session.run, saving, path)
    saved = training.values()
    reader = tf.train.load_checkpoint(path)
    assert {each: tuple(shape) for each, shape in reader.get_variable_to_shape_map().items()} == {
        each: value.shape for each, value in saved.items()
    }
    assert all((reader.get_tensor(each) == value).all() for each, value in saved.items())
    training.steps(1)
    files.read(training.session.run, saving, path, list(saved))
    assert largest_difference(training.values(), saved) == 0


def test_what_is_not_finite_is_found_in_every_part(graphs: Graphs) -> None:
    """One element of one piece is enough, and its tensor is named."""
    training, saving = graphs["sharded"]
    values = training.values()
    assert saving.not_finite(training.session.run) == []
    wrong = values["logits/kernel/Adam"].copy()
    wrong[-1, 3] = float("nan")
    training.assign({"logits/kernel/Adam": wrong})
    assert saving.not_finite(training.session.run) == ["logits/kernel/Adam"]
    training.assign({"logits/kernel/Adam": values["logits/kernel/Adam"]})

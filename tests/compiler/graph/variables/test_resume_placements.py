"""A checkpoint does not know where its variables were: every placement takes those of all others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.graph.storage.saving import Saving, add_saving
from tests.support import CLASSIFIER, CONVOLUTION, Training, examples, largest_difference, spec_of

PLACEMENTS = {
    "shared": "variables -> cpu[0]",
    "balanced": "variables -> balanced(cpu[*])",
    "round_robin": "variables -> round_robin(cpu[*])",
    "replicated": "variables -> replicated",
    "mixed": 'variables -> cpu[1]\n  variables("conv1/*") -> replicated\n  slots("logits/*") -> cpu[0]',
    "sharded": "variables -> sharded(cpu[*])",
    "shards": 'variables("*/kernel") -> sharded(cpu[0..2], axis = 1)\n  slots -> cpu[3]',
    "groups": 'clones -> groups(cpu[*], size = 2)\n  ops("logits/*") -> group[1]',
}


@pytest.fixture(scope="module")
def graphs() -> Iterator[dict[str, tuple[Training, Saving]]]:
    """One graph for each placement, with a session on it."""
    made: dict[str, tuple[Training, Saving]] = {}
    for name, rules in PLACEMENTS.items():
        text = CLASSIFIER.format(clones=2, batch=8, optimizer="Adam(1e-2)", layers=CONVOLUTION)
        text = text.replace("cpu = 2", "cpu = 4") + f"place {{\n  {rules}\n}}\n"
        training = Training(spec_of(text, update__ema="0.9"), examples(64))
        made[name] = training, add_saving(training.compiled)
    yield made
    for training, _ in made.values():
        training.session.close()


@pytest.mark.parametrize("first", PLACEMENTS)
def test_every_placement_goes_on_from_a_checkpoint_of_another(
    first: str, graphs: dict[str, Any], tmp_path: Path
) -> None:
    """Weights, slots, averages and the step are those that were saved, in every copy."""
    training, saving = graphs[first]
    training.steps(3)
    path = str(tmp_path / "model.ckpt")
    training.session.run(saving.save_op, {saving.path: path})
    saved = training.values()
    for name, (other, its_saving) in graphs.items():
        other.session.run(its_saving.restore_op, {its_saving.path: path})
        other.session.run(other.compiled.after_restore_op)
        assert largest_difference(other.values(), saved) == 0, name
        for variable in other.compiled.variables.values():
            copies, shard = other.session.run(variable.copies), variable.info.shard
            wanted = saved[variable.weight][() if shard is None else shard.index]
            assert all((each == wanted).all() for each in copies), name
        other.steps(1)
        assert other.values()["global_step"] == saved["global_step"] + 1

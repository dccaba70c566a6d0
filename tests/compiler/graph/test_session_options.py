"""Session options: thread pools that suit the towers of a process."""

from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.session_options import batches_at_once, session_config
from compiler.pipeline import make_plan
from tests.graphs import graph_of
from tests.support import classifier, cloned, spec_of


def pools(*, clones: int, emulate: bool = False, **settings: str) -> tuple[int, int]:
    """Return the sizes of the pools for one op and for many; 0 is TensorFlow's choice."""
    config = session_config(make_plan(classifier(clones=clones, **settings), emulate=emulate))
    return config.intra_op_parallelism_threads, config.inter_op_parallelism_threads


WRITTEN = {"devices__intra_op_threads": "4", "devices__inter_op_threads": "7"}
GPUS = {"devices__cpu": "1", "devices__gpu": "3"}


@pytest.mark.usefixtures("six_cores")
@pytest.mark.parametrize(
    ("settings", "environment", "sizes"),
    [
        # An op gets the cores that its tower has to itself, at least one; a single tower has TensorFlow's.
        *(({"clones": each}, None, (size, 0)) for each, size in ((1, 0), (2, 3), (3, 2), (4, 1), (8, 1))),
        # What `devices` says counts most; a number in TensorFlow's own variable is left to TensorFlow.
        ({"clones": 2}, "5", (0, 0)),
        ({"clones": 2, **WRITTEN}, "5", (4, 7)),
        # Where GPUs work, ops on CPUs are few; emulated, GPUs are CPUs.
        ({"clones": 3, **GPUS}, None, (0, 0)),
        ({"clones": 3, **GPUS, "emulate": True}, None, (2, 0)),
    ],
)
def test_towers_share_the_cores(
    settings: dict[str, Any], environment: str | None, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the spec, or else the environment, has a number, or the towers are on GPUs."""
    if environment is not None:
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", environment)
    assert pools(**settings) == sizes


@pytest.mark.usefixtures("six_cores")
def test_an_evaluation_has_as_many_batches_at_work_as_fill_the_cores() -> None:
    """With 2 of 6 cores for an op there are 3 batches at a time, and one where an op takes all cores."""
    plans = [make_plan(classifier(clones=each)) for each in (1, 2, 3, 8)]
    assert [batches_at_once(each) for each in plans] == [1, 2, 3, 6]


@pytest.mark.usefixtures("six_cores")
@pytest.mark.parametrize(
    ("rows", "optimizer", "wide"),
    [(4000, "Adam()", True), (4000, "Adam(lazy = true)", False), (40, "Adam()", False)],
)
def test_an_op_that_goes_through_a_large_table_has_all_cores(rows: int, optimizer: str, wide: bool) -> None:
    """4000 rows of 8 numbers are more than 24 other weights times 64 examples; 40 rows are not."""
    text = f"""
  word = input(int32, [])
  label = input(int32, [])
  logits = word -> Embedding({rows}, 8) -> Dense(3, use_bias = false)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
    compiled = graph_of(spec_of(cloned(text, batch=32, update=f"optimizer = {optimizer}")))
    assert session_config(compiled.plan).intra_op_parallelism_threads == (0 if wide else 3)


def test_the_options_that_are_not_given() -> None:
    """Devices are those of the spec, and ops stay on them; memory of GPUs is taken as it is needed."""
    config = session_config(make_plan(classifier(clones=2, devices__cpu="3")))
    assert dict(config.device_count) == {"CPU": 3}
    assert not config.allow_soft_placement
    assert not config.log_device_placement
    assert config.gpu_options.allow_growth
    assert config.gpu_options.visible_device_list == ""
    assert config.use_per_session_threads
    assert not session_config(make_plan(classifier()), served=True).use_per_session_threads


def test_the_options_of_the_block() -> None:
    """Each goes to the field of TensorFlow that is meant; a caller may set further ones."""
    settings = {
        "devices__gpu": "2",
        "devices__soft_placement": "true",
        "devices__allow_growth": "false",
        "devices__log_placement": "true",
        "devices__visible": "[3, 1]",
    }
    plan = make_plan(classifier(clones=2, **settings))
    config = session_config(plan, isolate_session_state=True)
    assert config.allow_soft_placement
    assert config.log_device_placement
    assert not config.gpu_options.allow_growth
    assert config.gpu_options.visible_device_list == "3,1"
    assert config.isolate_session_state
    assert dict(config.device_count) == {"CPU": 2}
    emulated = session_config(make_plan(classifier(clones=2, **settings), emulate=True))
    assert dict(emulated.device_count) == {"CPU": 4}


@pytest.mark.parametrize(
    ("gpus", "emulate", "optimized"), [("0", False, False), ("2", False, True), ("2", True, False)]
)
def test_graphs_are_optimized_for_gpus_alone(gpus: str, *, emulate: bool, optimized: bool) -> None:
    """Ops are folded or merged nowhere, so that each can be found by its name."""
    devices = {"devices__gpu": gpus} if gpus != "0" else {}
    config = session_config(make_plan(classifier(clones=2, **devices), emulate=emulate))
    assert config.graph_options.rewrite_options.disable_meta_optimizer != optimized
    assert config.graph_options.optimizer_options.opt_level == tf.compat.v1.OptimizerOptions.L0

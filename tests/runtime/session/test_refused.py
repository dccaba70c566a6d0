"""A server refuses a request that it takes for one that it had already got, as TensorFlow now and then does.

The refusals of these tests are made up: whatever runs below a session fails before it has run, or after a
part of another server has run, which is what a session then finds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdeploy
from tests.runtime.cluster.test_worker_group import train
from tfdeploy.runtime.cluster.server import loopback_server
from tfdeploy.runtime.session.engine import (
    Refused,
    ServedSession,
    ran_without,
    sent_again,
    task_that_refused,
)
from tfdeploy.runtime.session.faults import reason_of
from tfdeploy.runtime.show.reporting import Reporter

SPEC = """
tfdeploy = 1

model "small" {{
  image = input(float32, [6])
  digit = input(int32, [])
  logits = image -> Dense(4, name = "one") -> Dense(3, name = "two")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}

data {{ train = npz("train.npz", image = "image", digit = "digit") }}

devices {{
  job "ps" {{ tasks = 2 }}
  job "worker" {{ tasks = 2 }}
}}

clones {{ batch = 4 }}
update {{ optimizer = SGD(0.05), replication = in_graph }}
train {{ steps = 20, seed = 3, checkpoint_every = 1000, directory = "{run}" }}
"""


def refusal_of(task: str) -> tf.errors.AbortedError:
    """Return the error that TensorFlow 2.21 raises."""
    job, number = task.split(":")
    text = (
        f"From /job:{job}/replica:0/task:{number}:\nThe same RunGraph (Worker) request was received twice. "
    )
    return tf.errors.AbortedError(None, None, f'{text}goo.gle/debugstr    graph_handle: "1"\nstep_id: 7')


def refuse(
    monkeypatch: pytest.MonkeyPatch, when: Callable[[int, Any], str | None], ran: Callable[[Any, Any], object]
) -> list[int]:
    """Let sessions refuse runs that are made again and again.

    Args:
        monkeypatch: Undoes it.
        when: Returns the task that refuses a run, by the number of the run and what it fetches; None for
            none.
        ran: Is called with the session and what is fetched before a run is refused.

    Returns:
        The numbers of the runs that were refused, as they come.
    """
    made, refused, number = tf.compat.v1.Session.make_callable, list[int](), iter(range(10**9))

    def make_callable(session: Any, fetches: Any, *given: Any, **more: Any) -> Callable[..., Any]:
        run = made(session, fetches, *given, **more)

        def perhaps(*values: Any) -> Any:
            now = next(number)
            task = when(now, fetches)
            if task is None:
                return run(*values)
            refused.append(now)
            ran(session, fetches)
            raise refusal_of(task)

        return perhaps

    monkeypatch.setattr(tf.compat.v1.Session, "make_callable", make_callable)
    return refused


def test_a_refusal_names_the_task_and_is_no_loss_of_it() -> None:
    """What else TensorFlow says of the request, with all that was fed, is left out."""
    fault = refusal_of("ps:1")
    assert task_that_refused(fault) == "/job:ps/task:1"
    assert reason_of(fault) == "ps:1 has taken a new request for one that it had already got"
    assert task_that_refused(tf.errors.AbortedError(None, None, "a worker has found variables gone")) is None


def test_what_needs_nothing_of_the_task_may_have_run() -> None:
    """What takes something from the task, or waits for a change of it, cannot; constants do not count."""
    graph = tf.Graph()
    with graph.as_default():
        on = {name: f"/job:{name}/replica:0/task:0/device:CPU:0" for name in ("ps", "worker")}
        with tf.device(on["ps"]):
            weight = tf.compat.v1.get_variable(
                "w", (2,), initializer=tf.zeros_initializer(), use_resource=True
            )
            constant = tf.constant([1.0, 1.0])
            value = weight.read_value()
        with tf.device(on["worker"]):
            own = tf.compat.v1.get_variable("o", (2,), initializer=tf.zeros_initializer(), use_resource=True)
            from_constant = own.assign_add(constant, read_value=False)
            from_shape = own.assign_add(tf.zeros_like(value), read_value=False)
        with tf.device(on["ps"]):
            add = weight.assign_add(constant, read_value=False)
            with tf.control_dependencies([add]):
                later = tf.constant([1.0, 1.0])
        with tf.device(on["worker"]):
            from_later = own.assign_add(later, read_value=False)
            from_value = own.assign_add(value * 2.0, read_value=False)
            own_value = own.read_value()
        with tf.device(on["ps"]):
            change = weight.assign_add(own_value, read_value=False)
        with tf.device(on["worker"]), tf.control_dependencies([change]):
            after = own.assign_add(constant, read_value=False)
    asked = [from_constant, from_shape, from_later, from_value, change, after]
    assert {*ran_without(asked, "/job:ps/task:0")} == {from_constant, from_shape}
    assert {*ran_without(asked, "/job:worker/task:0")} == {add}
    assert {*ran_without([from_value, change], "/job:worker/task:0")} == set()
    assert {*ran_without([change], "/job:ps/task:1")} == {change}
    assert {*ran_without([from_constant], "/job:ps/task:0")} == {from_constant}
    assert not ran_without([from_constant], "/job:ps/task:0", {constant: value})  # which it takes instead


def test_a_run_that_has_changed_nothing_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts once. Another error is raised as it is, and no run is sent again without an end."""
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:localhost/task:0"):
        count = tf.compat.v1.get_variable("n", (), tf.int64, tf.zeros_initializer(), use_resource=True)
        add = count.assign_add(1, read_value=False)
    server = loopback_server(tf.compat.v1.ConfigProto())
    refused = refuse(monkeypatch, lambda at, _: "localhost:0" if at % 2 == 0 else None, lambda *_: None)
    with ServedSession(server.target, graph=graph) as session:
        session.run(count.initializer)
        run = session.make_callable(add)
        for _ in range(3):
            run()
        assert session.run(count.read_value()) == 3
    assert refused == [0, 2, 4]

    def fails(task: str) -> Any:
        raise refusal_of(task) if task else tf.errors.AbortedError(None, None, "lost")

    with pytest.raises(tf.errors.AbortedError, match="received twice"):
        sent_again(lambda: fails("localhost:0"), [add])
    with pytest.raises(tf.errors.AbortedError, match="lost"):
        sent_again(lambda: fails(""), [add])
    with pytest.raises(Refused) as caught:
        sent_again(lambda: fails("ps:0"), [add])
    assert caught.value.ran == (add,)


@pytest.mark.parametrize(
    "update", ["replication = between_graph", pytest.param("mode = async", marks=pytest.mark.full)]
)
def test_workers_of_a_server_make_every_step_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: str
) -> None:
    """Whatever they run: gradients, updates, and what they ask the state that they share."""
    refused = refuse(monkeypatch, lambda at, _: "localhost:0" if at % 5 == 3 else None, lambda *_: None)
    assert train(tmp_path, update, workers=2).steps == 30
    assert len(refused) > 5


class Notes(Reporter):
    """Keeps what is said during a run."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)


def weights_of(folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Train on a cluster of processes in one graph; return what was said, and the weights at the end."""
    generator = np.random.default_rng(0)
    images = generator.random((96, 6), dtype=np.float32)
    np.savez(folder / "train.npz", image=images, digit=(images.sum(1) * 3 % 3).astype(np.int32))
    spec = folder / "spec.tfdeploy"
    spec.write_text(SPEC.format(run=folder / "run"))
    reporter = Notes()
    result = tfdeploy.run(tfdeploy.load(spec), reporter=reporter)
    assert (result.status, result.steps) == ("finished", 20)
    reader = tf.train.load_checkpoint(str(next((folder / "run" / "checkpoints").glob("*.index")))[:-6])
    names = [each for each in reader.get_variable_to_shape_map() if not each.startswith("_")]
    return reporter.notes, {each: reader.get_tensor(each) for each in names}


@pytest.mark.full
def test_a_step_of_one_graph_reads_its_examples_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker refuses its part of a step, and the other has read its examples.

    The weights at the end are those of a run without that, bit by bit, and no checkpoint was gone back to.
    """
    (tmp_path / "plain").mkdir()
    (tmp_path / "refused").mkdir()
    _, expected = weights_of(tmp_path / "plain")

    def when(at: int, fetches: Any) -> str | None:
        return "worker:1" if isinstance(fetches, dict) and "data_loss" in fetches and at % 4 == 2 else None

    def ran(session: Any, fetches: Any) -> None:
        ops = [getattr(each, "op", each) for each in tf.nest.flatten(fetches)]
        changed = ran_without(ops, "/job:worker/task:1")
        assert {each.type for each in changed} == {"IteratorGetNext", "Timestamp"}
        session.run(changed)

    refused = refuse(monkeypatch, when, ran)
    notes, found = weights_of(tmp_path / "refused")
    assert refused
    assert not [each for each in notes if "interrupted" in each]
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)

"""The data of a spec on its way to the graph: how it is opened, who may read it, and what each pipe skips."""

from types import SimpleNamespace
from typing import Any

import pytest

from compiler.pipeline import make_plan
from compiler.plan import Plan, WorkerPlan
from tests.specs import LINE
from tests.support import refusal, spec_of
from tfdeploy.data import Stream
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.session.data import feed_training, open_stream, require_readable, splits_of

SPEC = f"""{LINE}
data {{
  train = synthetic(10, x = feature(float32, [3]), y = feature(float32, [1])) -> shuffle(4)
  test = synthetic(7, x = feature(float32, [3]), y = feature(float32, [1]))
}}
"""
CLUSTER = Cluster.of({"ps": ["p:1"], "worker": ["a:1"]})


@pytest.fixture(name="plan", scope="module")
def fixture_plan() -> Plan:
    """Return the plan of a spec with two splits."""
    return make_plan(spec_of(SPEC, train__deterministic="true"))


@pytest.fixture(name="stream", scope="module")
def fixture_stream(plan: Plan) -> Stream:
    """Return the training data."""
    return open_stream(plan, splits_of(plan.spec)["train"], plan.model.inputs, training=True, seed=5)


def test_splits_have_their_names(plan: Plan) -> None:
    """Those that a spec does not have are left out, and a spec without data has none."""
    assert {name: split.name for name, split in splits_of(plan.spec).items()} == {
        "train": "train",
        "test": "test",
    }
    assert splits_of(spec_of(SPEC[: SPEC.index("data {")])) == {}


def test_a_stream_is_opened_as_the_spec_says(plan: Plan, stream: Stream) -> None:
    """From its folder, in a fixed order if it wants one, and for evaluation unless it is for training."""
    assert (stream.options.seed, stream.options.deterministic, stream.options.training) == (5, True, True)
    assert [(each.name, each.dtype, each.shape) for each in stream.fields] == [
        ("x", "float32", (3,)),
        ("y", "float32", (1,)),
    ]
    test = open_stream(plan, splits_of(plan.spec)["test"], plan.model.inputs)
    assert (test.options.seed, test.options.training, test.size) == (None, False, 7)


@pytest.mark.parametrize(
    ("shards", "skipped"), [((None,), (7,)), ((None, None), (7, 7)), (((0, 3), (2, 3)), (2, 2))]
)
def test_each_pipe_skips_its_share_of_what_was_consumed(
    stream: Stream, shards: tuple[Any, ...], skipped: tuple[int, ...]
) -> None:
    """A pipe without a shard reads all examples."""
    fed: list[tuple[Any, Stream, bool]] = []
    pipes = [SimpleNamespace(shard=each, reader=f"clone {at}") for at, each in enumerate(shards)]
    engine: Any = SimpleNamespace(
        compiled=SimpleNamespace(train_inputs=pipes, plan=None),
        feed=lambda pipe, part, *, training: fed.append((pipe, part, training)),
    )
    feed_training(engine, stream, 7)
    assert [pipe for pipe, _, _ in fed] == pipes
    assert [part.options.shard for _, part, _ in fed] == list(shards)
    assert [part.source.reader for _, part, _ in fed] == [pipe.reader for pipe in pipes]
    assert [part.options.reader for _, part, _ in fed] == [pipe.reader for pipe in pipes]
    assert tuple(part.options.skip_examples for _, part, _ in fed) == skipped
    assert all(training and part.options.seed == 5 for _, part, training in fed)


def test_workers_with_graphs_of_their_own_read_one_order() -> None:
    """Whatever the chief has drawn, and whether the spec has a seed: else shares of a pass would overlap."""
    text = SPEC + 'devices { job "worker" { tasks = 2 } }\nupdate { optimizer = SGD(0.1) }\n'
    for given, wanted in ({}, 0), ({"train__seed": "3"}, 3):
        spec = spec_of(text, **given)
        plans = [make_plan(spec, worker=each) for each in (0, 1)]
        assert all(isinstance(each, WorkerPlan) for each in plans)
        opened = [
            open_stream(each, splits_of(spec)["train"], each.model.inputs, training=True, seed=seed)
            for each, seed in zip(plans, (77, None), strict=True)
        ]
        assert [each.options.seed for each in opened] == [wanted, wanted]


def test_servers_read_no_python(stream: Stream) -> None:
    """Which only the client of one graph has to know: a task reads its own data, as does a single process."""
    reason = SimpleNamespace(reason="it is Python", advice="write files")
    needing: Any = SimpleNamespace(needs_python=reason, split=stream.split)
    client = Membership(CLUSTER, None, "")
    require_readable([needing], None)
    require_readable([needing], Membership(CLUSTER, Task("worker", 0), ""))
    require_readable([stream], client)
    found = refusal(require_readable, [stream, needing], client)
    assert found.message == "this `synthetic` cannot be read by the server of `worker:0`"
    assert (found.notes[0], found.help, found.span) == (
        "it is Python",
        "write files",
        stream.split.source.span,
    )

"""Workers of a synchronous step wake each other: a run that waits ends because of what another has done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from compiler.graph.workers.coordination import State
from tests.support import spec_of
from tfdeploy.runtime.verify.session import Options, Verification
from tfdeploy.runtime.verify.trial import make_trial

SPEC = """
tfdeploy = 1
model "m" {
  x = input(float32, [4])
  label = input(int32, [])
  logits = x -> Dense(3)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices {
  job "ps" {}
  job "worker" { tasks = 2 }
}
clones { batch = 12 }
update { optimizer = SGD(0.1), replication = between_graph }
train { seed = 7 }
"""
PATIENCE = 120.0
"""Seconds after which a run that waits is taken for one that waits for ever."""


def test_a_run_that_posts_ends_when_others_have_done_their_part() -> None:
    """The chief's when all have posted, that of another when the chief has applied."""
    spec = spec_of(SPEC)
    trial: Any
    with (
        make_trial(Verification(spec, Options(steps=2, synthetic=True)).setup, spec) as trial,
        ThreadPoolExecutor(2) as pool,
    ):

        def post(worker: int) -> Any:
            exchange, session = trial.graphs[worker].exchange, trial.sessions[worker]
            fetches, fed = [exchange.post, exchange.posted], {exchange.tick: trial.tick}
            return pool.submit(lambda: State.of(session.run(fetches, fed)[1]))

        try:
            for _ in range(2):
                other = post(1)
                chief = post(0).result(PATIENCE)
                assert chief.arrived == (trial.tick, trial.tick)
                assert not other.done()
                trial.session.run(trial.compiled.exchange.apply)
                assert other.result(PATIENCE).tick == trial.tick + 1
                trial.tick += 1
        finally:  # a run that waits would keep the test from failing
            for graph, session in zip(trial.graphs, trial.sessions, strict=True):
                session.run(graph.exchange.wake)

"""The state that workers share: who may claim an update, what counts, and what the chief changes."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import tensorflow as tf
from attrs import define, evolve, field

from compiler.graph.variables.variables import create_variable
from compiler.graph.workers.coordination import CLOSED, FINISHED, NEVER, OPEN, Coordination, State
from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from tests.support import CLASSIFIER, CONVOLUTION, Drafted, ops_before, spec_of

BATCH = 4
CLUSTER = CLASSIFIER.format(clones=2, batch=BATCH, optimizer="SGD(0.1)", layers=CONVOLUTION).replace(
    "cpu = 2", 'job "ps" {}\n job "worker" { tasks = 2 }'
)


@define
class Board:
    """The shared state of two workers in one session, with the ops of both."""

    session: Any
    ops: Coordination
    claims: Sequence[Any]
    nexts: Sequence[Any]
    joins: Sequence[Any]
    generation: int = field(default=0)

    def open(self, step: int = 0, examples: int = 0, *, allowed: int | None = None) -> None:
        """Begin a new generation, and let updates be claimed up to a number."""
        self.generation += 1
        self.chief(self.ops.open, self.generation, step, examples)
        if allowed is not None:
            self.chief(self.ops.allow, allowed)

    def chief(self, op: Any, *arguments: int) -> State:
        """Run an op of the chief; return the state after it."""
        given = [*arguments, 0, 0, 0][:3]
        self.session.run(op, {self.ops.given: given})
        return self.state

    def run(self, tensor: Any, generation: int | None = None, life: int = 0) -> tuple[bool, State]:
        """Run a claim of a worker that works in some generation and life, by default the current ones."""
        mine = [self.generation if generation is None else generation, life]
        fine, *numbers = self.session.run(tensor, {self.ops.mine: mine})
        assert fine in (0, 1)
        assert State.of(numbers) == self.state
        return bool(fine), self.state

    @property
    def state(self) -> State:
        """The state as it is now."""
        return State.of(self.session.run(self.ops.state))


def made(staleness: int | None) -> Iterator[Board]:
    """Make the state of two workers."""
    more = {} if staleness is None else {"update__staleness": str(staleness)}
    spec = spec_of(CLUSTER, update__replication="between_graph", update__mode='"async"', **more)
    plan = make_plan(spec, emulate=True, worker=0)
    placed = Placed(plan.topology.devices[0], Reason("test", "default"))
    with Drafted(plan) as drafted:
        step = create_variable("global_step", lambda: tf.constant(0, tf.int64), placed, drafted.ledger)
        ops = Coordination.build(step, placed, drafted.ledger, plan)
        tables = [ops.table, evolve(ops.table, worker=1)]
        claims = [ops.claim, tables[1].claim("claim_of_other")]
        nexts = [each.claim(f"next_{each.worker}", []) for each in tables]
        joins = [ops.join, tables[1].renew("join_of_other", 1)]
    with drafted.session() as session:
        board = Board(session, *drafted.found((ops, claims, nexts, joins)))
        session.run([each.initializer for each in board.ops.table.variables.values()])
        yield board


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    """The state of two workers that may be any distance apart."""
    yield from made(None)


@pytest.fixture(scope="module")
def close() -> Iterator[Board]:
    """The state of two workers of which none may be ahead of the other by more than one update."""
    yield from made(1)


@pytest.mark.parametrize("op", ["claim", "join", "revoke", "freeze"])
def test_what_looks_before_it_changes_waits_for_its_turn(board: Board, op: str) -> None:
    """Two workers that claim at the same moment would both find the last update to be free."""
    own = [each for each in board.session.graph.get_operations() if each.name.startswith(f"cluster/{op}/")]
    (enter,) = (each for each in own if each.type == "MutexLock")
    (leave,) = (each for each in own if each.type == "ConsumeMutexLock")
    assert enter.inputs[0].op.get_attr("shared_name") == b"tfdeploy/cluster"
    changes = [each for each in own if each.type.startswith(("Assign", "ResourceScatter"))]
    assert changes
    for each in changes:
        assert enter.name in ops_before(each), each.name
        assert each.name in ops_before(leave), each.name


def test_a_generation_begins_with_nothing_claimed(board: Board) -> None:
    """It continues from a step, and no update may be claimed before that is allowed."""
    board.open(allowed=2)
    board.run(board.nexts[0])
    board.session.run([board.ops.lose, board.ops.leave], {board.ops.mine: [1, 0]})
    board.open(10, 80)
    assert board.state == State(
        generation=board.generation,
        phase=OPEN,
        lost=0,
        tick=board.generation,
        global_step=10,
        examples=80,
        begun=10,
        limit=10,
        claimed=(0, 0),
        done=(0, 0),
        life=(0, 0),
        arrived=(NEVER, NEVER),
        left=(0, 0),
    )
    assert board.run(board.claims[0]) == (False, board.state)
    assert board.chief(board.ops.allow, 11).limit == 11
    fine, after = board.run(board.claims[1])
    assert (fine, after.begun, after.claimed) == (True, 11, (0, 1))
    assert board.run(board.claims[0]) == (False, after)


@pytest.mark.parametrize(("generation", "life"), [(-1, 0), (1, 0), (0, 1), (0, -1)])
def test_only_the_current_generation_and_life_may_claim(board: Board, generation: int, life: int) -> None:
    """A worker of another generation, or another life, changes nothing, whatever it has done."""
    board.open(allowed=5)
    before = board.state
    wanted = board.generation + generation
    for tensor in (board.claims[0], board.nexts[0]):
        assert board.run(tensor, wanted, life) == (False, before)


@pytest.mark.parametrize(("op", "phase"), [("announce", CLOSED), ("end", FINISHED)])
def test_nothing_is_claimed_unless_the_generation_is_open(board: Board, op: str, phase: int) -> None:
    """The chief announces the next generation, or says that training is over."""
    board.open(allowed=5)
    state = board.chief(getattr(board.ops, op), board.generation)
    assert (state.phase, state.generation) == (phase, board.generation)
    assert board.run(board.claims[0]) == (False, state)


def test_an_update_counts_for_its_worker_and_the_model(board: Board) -> None:
    """The end of an update adds a step, its examples, and one to what the worker has done; then it claims."""
    board.open(3, 12, allowed=5)
    assert board.run(board.claims[1])[0]
    fine, state = board.run(board.nexts[1])
    assert fine
    assert (state.global_step, state.examples) == (4, 12 + BATCH)
    assert (state.done, state.claimed, state.begun) == ((0, 1), (0, 2), 5)
    fine, state = board.run(board.nexts[1])
    assert not fine
    assert (state.global_step, state.done, state.claimed) == (5, (0, 2), (0, 2))


@pytest.mark.parametrize("worker", [0, 1])
@pytest.mark.parametrize("by_chief", [False, True])
def test_a_new_life_gives_back_what_was_claimed_and_not_done(
    board: Board, worker: int, *, by_chief: bool
) -> None:
    """The worker itself, or the chief in its place, gives back one update of two; the other one counts."""
    board.open(allowed=9)
    board.run(board.claims[worker])
    board.run(board.nexts[worker])
    board.run(board.claims[1 - worker])
    claimed = tuple(2 if each == worker else 1 for each in (0, 1))
    assert (board.state.begun, board.state.claimed) == (3, claimed)
    if by_chief:
        board.chief(board.ops.revoke, worker)
    else:
        board.session.run(board.joins[worker])
    state = board.state
    assert (state.begun, state.claimed) == (2, (1, 1))
    assert state.life == tuple(int(each == worker) for each in (0, 1))
    assert state.global_step == 1
    assert not board.run(board.claims[worker])[0]
    assert board.run(board.claims[worker], life=1)[0]


def test_frozen_updates_are_those_that_have_begun(board: Board) -> None:
    """No further one can be claimed; a limit that is lower already stays."""
    board.open(allowed=5)
    board.run(board.claims[0])
    assert board.chief(board.ops.freeze).limit == 1
    board.open(7)
    board.chief(board.ops.allow, 6)
    assert board.chief(board.ops.freeze).limit == 6


def test_a_worker_says_what_it_knows(board: Board) -> None:
    """That variables are lost, for its generation, and that it has ended, for itself alone."""
    board.open()
    board.session.run(board.ops.lose, {board.ops.mine: [board.generation, 0]})
    assert (board.state.lost, board.state.left) == (board.generation, (0, 0))
    board.session.run(board.ops.leave)
    assert board.state.left == (1, 0)


def test_no_worker_is_further_ahead_than_it_may_be(close: Board) -> None:
    """One update ahead of the slowest is allowed, which then goes on; the other one waits for it."""
    close.open(allowed=9)
    assert close.run(close.claims[0])[0]
    assert not close.run(close.nexts[0])[0]
    assert close.run(close.claims[1])[0]
    assert close.run(close.nexts[1])[0]
    assert close.run(close.claims[0])[0]
    assert close.state.done == (1, 1)

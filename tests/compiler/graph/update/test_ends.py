"""The ends of an update: one for each task that the task with the global step would have to ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from compiler.graph.update.step import join_ends
from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from tests.support import CLASSIFIER, CONVOLUTION, Drafted, spec_of

CLUSTER = CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION).replace(
    "cpu = 2", 'job "ps" { tasks = 2 }\n job "worker" { tasks = 2 }'
)


def test_only_one_op_of_each_other_task_is_waited_for() -> None:
    """Those of the task of the global step, and the only one of another task, stay as they are."""
    plan = make_plan(spec_of(CLUSTER), emulate=True)
    drafted, reason = Drafted(plan), Reason("test", "default")
    ledger = drafted.ledger
    places = {each.ref: Placed(each, reason) for each in plan.topology.devices}
    home, server, worker = places["ps[0].cpu[0]"], places["ps[1].cpu[0]"], places["worker[1].cpu[0]"]
    assembly: Any = SimpleNamespace(ledger=ledger, step_place=home, scope="update")
    with drafted:
        done = []
        for number, place in enumerate((server, home, worker, server, home, server)):
            done.append(ledger.writer("update").after(f"done_{number}", (), place))
        ends = join_ends(assembly, done)
    assert ends[:2] == [done[1], done[4]]
    (joined,) = (each for each in ends if each not in done)
    assert set(ends) == {done[1], done[4], done[2], joined}
    assert joined == "update/ended/at_ps_1_cpu_0"
    made = drafted.graph.get_operation_by_name(joined)
    assert {each.name for each in made.control_inputs} == {done[0], done[3], done[5]}
    assert ledger.entries[joined].device == server.device

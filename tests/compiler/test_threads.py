"""How many threads work on an op, if all tasks are on one machine of six cores."""

from __future__ import annotations

import os

import pytest

from compiler.process import on_one_machine, threads_on_one_machine
from dsl import ir

SERVERS, WORKERS = ir.Job("ps", tasks=2), ir.Job("worker", tasks=3)


@pytest.fixture(autouse=True)
def six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have six cores, and no wish of the environment."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)


def test_servers_share_the_cores_and_so_do_all_other_tasks() -> None:
    """Two servers have half of the cores each; three workers and an evaluator a quarter, rounded down."""
    devices = ir.Devices(jobs=(SERVERS, WORKERS, ir.Job("evaluator")))
    workers = {("worker", each): 1 for each in range(3)}
    expected = {("ps", 0): 3, ("ps", 1): 3, **workers, ("evaluator", 0): 1}
    assert threads_on_one_machine(devices) == expected


def test_the_number_in_the_spec_holds_for_every_task() -> None:
    """It is what the user wants, on however few cores."""
    found = threads_on_one_machine(ir.Devices(jobs=(SERVERS, WORKERS), intra_op_threads=4))
    assert set(found.values()) == {4}


def test_tasks_are_on_one_machine_unless_their_addresses_name_several() -> None:
    """Tasks without addresses are started by the launcher, on its own machine."""
    here = ir.Job("ps", hosts=("a:1", "a:2"))
    assert on_one_machine([SERVERS, WORKERS])
    assert on_one_machine([here, ir.Job("worker", hosts=("a:3",))])
    assert not on_one_machine([here, ir.Job("worker", hosts=("b:3",))])

"""Which part of a cluster a process has, by its options, and what it tells the tasks that it starts."""

from collections.abc import Callable

import click
import pytest

from tests.cli.conftest import GOOD, Command
from tests.runtime.tasks import SPEC
from tests.support import spec_of
from tfdeploy.cli.commands.compile_and_run import _flags, membership_of
from tfdeploy.cli.common import Common
from tfdeploy.runtime.membership.addresses import Task

JOBS = 'devices { job "worker" { tasks = 2, cpu = 1 } }\n'


@pytest.mark.parametrize(
    ("text", "task", "message"),
    [
        (GOOD + JOBS, Task("worker", 0), "--launch starts every task, and --task says that this is one of"),
        (GOOD, Task("worker", 0), "--launch starts every task, and --task says that this is one of them"),
        (GOOD, None, "--launch needs a spec with jobs, and this one has none"),
    ],
)
def test_options_that_contradict_each_other(text: str, task: Task | None, message: str) -> None:
    """All tasks cannot be started for one of them, nor without any."""
    with pytest.raises(click.UsageError, match=message):
        membership_of(spec_of(text), task, print, launch=True, join=None)


def test_all_tasks_are_started_by_a_process_that_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """And without a cluster there is no part in one."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert membership_of(spec_of(GOOD + JOBS), None, print, launch=True, join=None) is None
    assert membership_of(spec_of(GOOD), None, print, launch=False, join=None) is None


@pytest.mark.parametrize(("output", "errors"), [(True, True), (True, False), (False, True), (False, False)])
def test_tasks_write_in_colour_if_both_streams_are_coloured(
    monkeypatch: pytest.MonkeyPatch, output: bool, errors: bool
) -> None:
    """What they write goes to both."""
    monkeypatch.setattr(Common, "color_output", output)
    monkeypatch.setattr(Common, "color_errors", errors)
    assert _flags(Common()) == ["--color", "always" if output and errors else "never"]


@pytest.mark.parametrize("flag", ["allow_python", "verbose", "quiet", "debug"])
def test_tasks_get_the_flags_of_this_process(flag: str) -> None:
    """Each that is given, and no other."""
    assert _flags(Common(**{flag: True}, color="never")) == [
        "--color",
        "never",
        f"--{flag.replace('_', '-')}",
    ]


def test_tasks_and_options_that_are_refused(command: Command, golden: Callable[[str, str], None]) -> None:
    """Tasks that there are not, are nowhere, or are run by another command; and what contradicts itself."""
    hosts = {"ps": 'hosts = ["127.0.0.1:2222"]', "worker": 'hosts = ["127.0.0.1:2223", "127.0.0.1:2224"]'}
    command.write("m.tfdeploy", SPEC.format(**hosts))
    between = "--set update.replication=between_graph"
    text = command.session(
        "serve m.tfdeploy --task ps:7",
        "serve m.tfdeploy --task ps",
        "serve m.tfdeploy",
        f"serve m.tfdeploy --task worker:0 {between}",
        "serve m.tfdeploy --task ps:0 --set devices.ps.hosts=[]",
        "compile-and-run m.tfdeploy --emulate --launch",
        "compile-and-run m.tfdeploy --task worker:0",
        f"compile-and-run m.tfdeploy {between}",
        env={"TF_CONFIG": None},
    )
    golden("cli/clusters.txt", text)

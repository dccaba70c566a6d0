"""Pages with commands or Python are followed from top to bottom, and show what a reader would see."""

import subprocess
from collections.abc import Iterator
from io import StringIO
from itertools import pairwise
from pathlib import Path
from socket import socket
from time import monotonic
from types import SimpleNamespace

import pytest
from rich.console import Console

from dsl import ir
from tests import forked
from tests.docs.pages import DOCS, TESTED_ELSEWHERE, Block, blocks_of, name_of, page_files, replace
from tests.docs.sessions import Session, matches, plain, same
from tfdeploy.doctor import software
from tfdeploy.runtime.cluster.identity import probe
from tfdeploy.runtime.cluster.monitor import MissingTask, TaskMonitor
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.show.console import LineReporter
from tfdeploy.runtime.train.loop import remedy

SESSIONS = [
    path
    for path in page_files()
    if name_of(path) not in TESTED_ELSEWHERE
    and any(each.kind in {"console", "python"} for each in blocks_of(path))
]

LAUNCHED = ("compile-and-run cluster.tfdeploy", "compile-and-run recommender.tfdeploy")
"""Commands that start all tasks of a cluster, which takes long."""
SEARCHED = "tfdeploy suggest"
"""The command that compiles many graphs and changes nothing."""


def has(block: Block, *commands: str) -> bool:
    """Whether a block has one of some commands."""
    return block.kind == "console" and any(command in block.text for command in commands)


def is_long(path: Path) -> bool:
    """Whether a page has commands that take long."""
    return any(has(block, *LAUNCHED, SEARCHED) for block in blocks_of(path))


LATE = (
    "how-to/compare.md",
    "how-to/gpus.md",
    "how-to/look.md",
    "how-to/memory.md",
    "how-to/model.md",
    "how-to/placement.md",
    "how-to/python.md",
    "how-to/runs.md",
    "how-to/trained.md",
    "how-to/update.md",
    "recommender.md",
)
"""Pages that run much, and have little that others do not have, which are left to `make full`."""


def is_late(path: Path) -> bool:
    """Whether a page is left to `make full`."""
    return name_of(path) in LATE


PARTS = [
    *(
        pytest.param(
            path, True, id=name_of(path), marks=pytest.mark.full if is_late(path) or is_long(path) else ()
        )
        for path in SESSIONS
    ),
    *(
        pytest.param(path, False, id=f"{name_of(path)} in part")
        for path in SESSIONS
        if is_long(path) and not is_late(path)
    ),
]
"""The pages. One that launches a cluster ends there for `make test`, which leaves out searches as well."""


@pytest.fixture
def forked_probe() -> Iterator[None]:
    """Fork the process in which `doctor` starts TensorFlow; tests/test_doctor.py has a true one."""

    def run(command: list[str], *, timeout: float, **options: object) -> subprocess.CompletedProcess[str]:
        assert options == {"capture_output": True, "text": True, "check": False}
        return forked.run(command, text=True, timeout=timeout)

    replaced = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(software, "subprocess", replaced)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("forked_tasks", "forked_probe")
@pytest.mark.parametrize(("path", "whole"), PARTS)
def test_a_page_shows_what_its_commands_print(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    *,
    whole: bool,
) -> None:
    """Every command and every block of Python works, and prints what stands below it, save times."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    session = Session(tmp_path)
    session.prepare(path.name)
    different: dict[Block, str] = {}
    before: Block | None = None
    for block in blocks_of(path):
        if not whole and has(block, *LAUNCHED):
            break
        if not whole and has(block, SEARCHED):
            continue
        shown = block.text if block.remark == "apart" else session.follow(block)
        if block.kind == "text" and before is not None and before.kind == "python":
            printed = session.printed()
            shown = shown if matches(shown.splitlines(), printed.splitlines()) else printed
        if shown != block.text:
            different[block] = shown
        before = block
    if request.config.getoption("--update-golden"):
        replace(path, different)
    assert {block.where: shown for block, shown in different.items()} == {
        block.where: block.text for block in different
    }


def test_every_other_output_is_what_is_really_said() -> None:
    """A block of text stands below the Python that prints it, or shows words that a run says, made here."""
    shown = {
        name_of(path): block.text.splitlines()
        for path in page_files()
        for before, block in pairwise([None, *blocks_of(path)])
        if block is not None and block.kind == "text" and (before is None or before.kind != "python")
    }
    out = StringIO()
    LineReporter(Console(file=out, width=90)).waiting(
        0.38, remedy(ir.Split(name="train", source=ir.Call("csv")))
    )
    said: list[str] = []
    worker, hosts = (
        Task("worker", 1),
        {"ps": ("10.0.0.1:2222",), "worker": ("10.0.0.2:2222", "10.0.0.3:2222")},
    )
    watch = TaskMonitor(Membership(Cluster.of(hosts), None, ""), [worker], said.append, 60.0)
    with socket() as deaf:  # it is bound, and does not listen
        deaf.bind(("127.0.0.1", 0))
        silence = probe(f"127.0.0.1:{deaf.getsockname()[1]}", 10.0)
    watch._report_missing(
        [MissingTask(worker, "10.0.0.3:2222", silence.words, monotonic() - 12.1)], "to start training"
    )
    watch._report_returned(())
    printed = {"how-to/data.md": out.getvalue().splitlines(), "how-to/clusters.md": said}
    assert shown.keys() == printed.keys()
    for page, lines in shown.items():
        assert matches(lines, printed[page]), page


def test_there_are_sessions() -> None:
    """The pages that the other test is about are found."""
    assert {"tutorial.md", "how-to/python.md"} <= {path.relative_to(DOCS).as_posix() for path in SESSIONS}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step  10/300  loss 2.2303  5,121 examples/s", "step 10/300 loss 2.2303 #"),
        ("cpu[0]  305   18.8 KiB     .", "cpu[0]  305   18.8 KiB     ."),
        (" --> digits.tfdeploy:7:44", " --> digits.tfdeploy:7:44"),
        ("  data  waited for 0.06 s, 30 % of the training", "data waited for #, # of the training"),
        ("  checkpoint_every = 10mins", "  checkpoint_every = 10mins"),
    ],
)
def test_times_and_rates_are_left_out_of_the_comparison(line: str, expected: str) -> None:
    """What differs from run to run does not count; every other figure and the columns do."""
    assert plain(line) == expected


def test_a_difference_in_figures_counts() -> None:
    """Counts, bytes and signs are held to the letter, and what training came to about so."""
    assert not same("cpu[0]  305   18.8 KiB", "cpu[0]  306   18.8 KiB")
    assert not same("cpu[0]  305   18.8 KiB", "cpu[0]  305   18.8 MiB")
    assert not same("out/step  26.9 KiB      +12 B", "out/step  26.9 KiB      -12 B")
    assert not same("imbalance(variables) <= 10%", "imbalance(variables) <= 5%")
    assert same("step 10  loss 2.3170  1.2 s", "step 10  loss 2.3174  0.8 s")
    assert not same("step 10  loss 2.3170  1.2 s", "step 10  loss 2.5170  1.2 s")


def test_a_difference_in_words_counts() -> None:
    """Words that are not those of the page are found, with or without lines left out."""
    assert not matches(["finished at step 10"], ["interrupted at step 10"])
    assert matches(["a", "...", "z 1.5 s"], ["a", "b", "c", "z 2.25 s"])
    assert not matches(["a", "...", "y"], ["a", "b", "z"])

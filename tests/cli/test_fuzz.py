"""Every command is closed, filled, killed and limited at random: it ends, with a code that it may have.

Each case is one process as a shell starts it. What happens to it is drawn from a seed, so that a case that
fails is the same when it is run again.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from tests.cli.test_streams import FAULTS
from tests.specs import CLASSES
from tfdeploy.cli import group

SEED, PATIENCE = 20, 240
SPEC = f"""{CLASSES}
data {{ train = synthetic(8, x = feature(float32, [4]), label = feature(int32, [], classes = 2)) }}
devices {{ cpu = 2 }}
clones {{ batch = 2 }}
update {{ optimizer = SGD(0.1) }}
train {{ steps = 3, log_every = 1 }}
"""

COMMANDS = {
    "init": "init new.tfdeploy",
    "fmt": "fmt --check spec.tfdeploy",
    "why": "why spec.tfdeploy '*'",
    "calibrate": "calibrate spec.tfdeploy --turns 1 --output profile.json",
    "diff": "diff spec.tfdeploy spec.tfdeploy",
    "compile": "compile spec.tfdeploy --out built",
    "serve": "serve spec.tfdeploy --task ps:0",
    "verify": "verify spec.tfdeploy --quick --synthetic --steps 2",
    "predict": "predict spec.tfdeploy --input examples.csv",
    "export": "export spec.tfdeploy --saved-model exported",
    "sweep": "sweep spec.tfdeploy --grid train.steps=2,3",
    "plot": "plot runs/spec",
    "explain": "explain TFD102",
    "completion": "completion bash",
}
"""The lines of commands that need, or are better tried with, more than the spec that they have to be given.

Some of them end in an error anyway, because there is no cluster and no run.
"""


def line_of(command: str) -> str:
    """Return the line with which a command is tried."""
    parameters = group.load(command).params
    needs_spec = any(isinstance(each, click.Argument) and each.required for each in parameters)
    return COMMANDS.get(command, f"{command} spec.tfdeploy" if needs_spec else command)


CLOSED = ("> /dev/full", ">&-", "2>&-", "2> /dev/full", ">&- 2>&-", "<&- >&- 2>&-", "| true", "| head -c 9")
LIMITED = ("-n 8", "-n 24", "-f 0", "-f 8", "-v 800000", "-v 2500000", "-d 400000", "-t 2")
GONE = "mkdir ../gone; cd ../gone; rmdir ../gone; "


QUICK = {"init", "explain", "serve"}
"""Without TensorFlow, with nothing to do, and one that waits for others; the rest is for `make full`."""


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.full) for each in group.COMMANDS],
)
def test_whatever_happens_to_a_command(command: str, tmp_path: Path) -> None:
    """It says what is wrong, if there is somebody to say it to, and never that it has a fault of its own."""
    chance = random.Random(f"{SEED} {command}")  # noqa: S311  # the same in every run
    for kind in chance.sample(("close", "limit", "kill", "leave"), 2):
        folder = tmp_path / kind / "inside"
        folder.mkdir(parents=True)
        (folder / "spec.tfdeploy").write_text(SPEC)
        (folder / "examples.csv").write_text("a,b,c,d\n1,2,3,4\n")
        line, before, delay, sent = line_of(command), "", None, None
        if kind == "close":
            line += f" {chance.choice(CLOSED)}"
        elif kind == "limit":
            before = f"ulimit {chance.choice(LIMITED)}; "
        elif kind == "leave":
            before = GONE
        else:
            delay = chance.choice((0.2, 0.5, 1, 2, 4)) * chance.random()
            sent = chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE))
        said, code = _run(folder, line, before, delay, sent)
        told = f"{before}{line}, {sent} after {delay} s: {code}\n{said}"
        assert code in _codes(kind, before, sent), told
        importing = said.rstrip().endswith("KeyboardInterrupt") or "_get_module_lock" in said
        if command != "explain" and not (sent == signal.SIGINT and importing):  # which Python tells by itself
            assert not FAULTS.search(said), told


def _codes(kind: str, before: str, sent: signal.Signals | None) -> set[int]:
    """Return the codes with which a command may end: its own, and those of what is done to it."""
    codes = {0, 1, 2}
    if sent is not None:
        codes |= {-sent, 128 + sent}
    if kind == "close":
        codes |= {-signal.SIGPIPE, 128 + signal.SIGPIPE}
    if "-t" in before:
        codes |= {-signal.SIGXCPU, 128 + signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGKILL}
    return codes


def _run(
    folder: Path, line: str, before: str, delay: float | None, sent: signal.Signals | None
) -> tuple[str, int]:
    """Run a line, with a signal after a delay if there is one; return what it has said, and its code."""
    if "|" in line:
        line += "; exit ${PIPESTATUS[0]}"
    run = "exec " if sent is not None else ""
    process = subprocess.Popen(
        ["/bin/bash", "-c", f'{before}{run}"{sys.executable}" -m tfdeploy {line}'],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        if delay is not None and sent is not None:
            time.sleep(delay)
            process.send_signal(sent)
        said, _ = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return said.decode(errors="replace"), process.returncode

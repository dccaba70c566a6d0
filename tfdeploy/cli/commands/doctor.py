"""`tfdeploy doctor`: what this machine has, and what would fail on it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.options import common_options, file_option, flag, force_option, option
from tfdeploy.doctor import Examination, machine, software
from tfdeploy.progress import busy

NOT_HEALTHY = 1
WIDTH = 90
MARKS = {"fine": "ok", "warning": "warning", "failure": "FAILS"}


@click.command()
@flag("--json", "as_json", "Print the findings as one line of JSON.")
@flag("--gpu", "Try on the GPUs what runs need of them, rung by rung.")
@option(
    "--emulate",
    "With --gpu: try it on N logical CPUs in place of GPUs.",
    type=click.IntRange(1, 64),
    metavar="N",
)
@file_option("--report", "With --gpu: write a report of figures, which can be attached.")
@force_option
@common_options
def command(
    common: Common, *, as_json: bool, gpu: bool, emulate: int | None, report: str | None, force: bool
) -> int:
    """Say what this machine has (Python, TensorFlow, GPUs, memory and more), what would fail, and what to do.

    With --gpu, trains a small model on the GPUs in ever more ways and compares it with one tower on a CPU.
    Exits with 1 if something would fail.
    """
    if not gpu and (emulate is not None or report is not None):
        raise click.UsageError("--emulate and --report are for --gpu")
    if gpu:
        return _climb(common, emulate or 0, report, as_json=as_json, force=force)
    with busy("starting TensorFlow", plain=False):
        found = examine()
    if as_json:
        say(found.to_json())
        return 0 if found.healthy else NOT_HEALTHY
    for each in found.findings:
        say(_lines(f"{MARKS[each.state]:<8} {each.name:<11} ", each.found))
        if each.advice:
            say(_lines(f"{'':<20}  = ", each.advice))
    failures = sum(each.state == "failure" for each in found.findings)
    say(f"\n{failures} of these would fail" if failures else "\nnothing here would fail")
    return 0 if found.healthy else NOT_HEALTHY


def _climb(common: Common, emulated: int, file: str | None, *, as_json: bool, force: bool) -> int:
    """Climb the ladder of rungs, print each, and write the report."""
    from tfdeploy.doctor.gpu import Climb, Rung
    from tfdeploy.runtime.records.files import require_free, require_place, write_output
    from tfdeploy.runtime.records.lock import is_json_object

    if file is not None:
        require_place(Path(file))
        require_free(Path(file), lambda path: is_json_object(path, {"emulated", "rungs"}), force=force)

    def tell(rung: Rung) -> None:
        if as_json or (common.quiet and rung.outcome.failure is None):
            return
        found = rung.outcome.failure or rung.outcome.skipped or rung.title
        say(_lines(f"{rung.state:<8} {rung.outcome.name:<13} ", found), flush=True)
        if rung.advice is not None:
            say(_lines(f"{'':<22}  = ", rung.advice), flush=True)

    with busy("climbing the ladder", plain=False):
        found = Climb(emulated, tell).report()
    if file is not None:
        write_output(Path(file), f"{found.to_json(indent=1)}\n")
    if as_json:
        say(found.to_json())
        return NOT_HEALTHY if found.failed else 0
    if found.failed:
        say(f"\nthe first rung that fails is `{found.failed[0].outcome.name}`")
    else:
        say("\nevery rung that was tried holds")
    if file is not None:
        say(f"report: {file}")
    return NOT_HEALTHY if found.failed else 0


def _lines(lead: str, text: str) -> str:
    """Return a text after a lead, its further lines below its first one."""
    return textwrap.fill(
        text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False
    )


def examine() -> Examination:
    """Examine the machine, for which TensorFlow is started in a process of its own."""
    start, started = software.start()
    findings = (
        software.python(),
        software.packages(),
        software.names(),
        start,
        *([software.gpus(started)] if started is not None else []),
        machine.cores(),
        machine.memory(started),
        machine.disk(),
        machine.loopback(),
        machine.proxy(),
        software.browser(),
        software.editor(Path.home()),
    )
    return Examination.of(findings)

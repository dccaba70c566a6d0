"""`tfdeploy doctor`: what this machine has, and what would fail on it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.options import common_options
from tfdeploy.doctor import Examination, machine, software
from tfdeploy.progress import busy

NOT_HEALTHY = 1
WIDTH = 90
MARKS = {"fine": "ok", "warning": "warning", "failure": "FAILS"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one line of JSON.")
@common_options
def command(common: Common, *, as_json: bool) -> int:
    """Say what this machine has (Python, TensorFlow, GPUs, memory and more), what would fail, and what to do.

    Exits with 1 if something would fail.
    """
    del common

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


def _lines(lead: str, text: str) -> str:
    """Return a text after a lead, its further lines below its first one."""
    return textwrap.fill(
        text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False
    )


def examine() -> Examination:
    """Examine the machine, for which TensorFlow is started in a process of its own."""
    start, started = software.start()
    return Examination.of(
        (
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
    )

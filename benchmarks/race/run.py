"""Races between contenders in separate processes. They take turns, so that other load affects them alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

import click
from attrs import define, field, frozen

from benchmarks.figures import Figures

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 1800  # seconds for one process
WARM_UP = 3  # steps


@frozen
class Race:
    """A race between contenders.

    Attributes:
        model: The name of the model.
        towers: The number of towers.
        contenders: The names of the contenders.
        rounds: How often the processes are started.
        turns: The number of turns of each process in a round.
        seconds: The approximate length of a turn.
        together: Whether all processes exist at the same time and take turns. If they do not fit into memory
            together, each process makes all its turns before the next one starts.
    """

    model: str
    towers: int
    contenders: tuple[str, ...]
    rounds: int = 1
    turns: int = 5
    seconds: float = 1.0
    together: bool = True


class Failed(Exception):  # noqa: N818  # of a contender, not of ours
    """Raised if a contender ended too early. The text has the end of its output."""


@define
class _Racer:
    """A process of a contender; `said` is what it has measured so far."""

    contender: str
    race: Race
    process: Any = field(repr=False)
    errors: Any = field(repr=False)
    watchdog: Timer = field(repr=False)
    said: dict[str, Any] = field(factory=dict)
    rates: list[float] = field(factory=list)
    cpu: list[float] = field(factory=list)

    @classmethod
    def start(cls, contender: str, race: Race, *more: str) -> _Racer:
        """Start a process and wait until it has made its first step, or has built its graph."""
        command = [
            sys.executable,
            "-m",
            "benchmarks.race.worker",
            contender,
            race.model,
            str(race.towers),
            *more,
        ]
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # it is read when the process has ended
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        watchdog = Timer(TIMEOUT, process.kill)
        watchdog.daemon = True
        watchdog.start()
        racer = cls(contender, race, process, errors, watchdog)
        try:
            racer.said |= racer._listen()
        except Failed:
            racer.end()
            raise
        return racer

    def turn(self) -> None:
        """Let the contender make steps for a while. A few steps before the first turn do not count."""
        if not self.rates:
            self.rates = [self._steps(WARM_UP)["rate"]]
            self.turn()
            self.rates.pop(0)
            return
        found = self._steps(max(2, round(self.rates[-1] * self.race.seconds)))
        self.rates.append(found["rate"])
        self.cpu.append(found["cpu"])

    def finish(self) -> Figures:
        """Let the process end, and return its measurements."""
        self.process.stdin.close()
        self.said |= self._listen()
        self.process.wait()
        race = self.race
        return Figures(self.contender, race.model, race.towers, **self.said, rates=self.rates, cpu=self.cpu)

    def end(self) -> None:
        """End the process if it still runs, and close its files."""
        self.watchdog.cancel()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for each in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(BrokenPipeError):
                each.close()

    def _steps(self, count: int) -> dict[str, Any]:
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self._listen()

    def _listen(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise Failed(f"{self.contender} failed on {self.race.model}:\n{self.errors.read()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


def run_race(race: Race) -> list[Figures]:
    """Return the measurements of all contenders and rounds.

    Contenders that fail are named on standard error and left out.
    """
    found = []
    for number in range(race.rounds):
        groups = [race.contenders] if race.together else [(each,) for each in race.contenders]
        for group in groups:
            for figures in _round(race, group):
                click.echo(f"round {number + 1}: {line(figures)}", err=True)
                found.append(figures)
    return found


def _round(race: Race, contenders: Sequence[str]) -> list[Figures]:
    racers: list[_Racer] = []
    try:
        for contender in contenders:
            with _named():
                racers.append(_Racer.start(contender, race))
        for _ in range(race.turns):
            for racer in racers:
                with _named():
                    racer.turn()
        found = []
        for racer in racers:
            with _named():
                found.append(racer.finish())
        return found
    finally:
        for racer in racers:
            racer.end()


@contextmanager
def _named() -> Iterator[None]:
    """Print the failure of a contender to standard error, and go on."""
    try:
        yield
    except (Failed, BrokenPipeError) as fault:
        click.echo(str(fault), err=True)


def run_build(contender: str, model: str, towers: int) -> Figures:
    """Return the measurements of building a graph, in a process that does nothing else."""
    racer = _Racer.start(contender, Race(model, towers, (contender,)), "build")
    try:
        figures = racer.finish()
    finally:
        racer.end()
    click.echo(f"build: {line(figures)}", err=True)
    return figures


def line(figures: Figures) -> str:
    """Return measurements on one line, to show progress."""
    more = f", first step {figures.first_step:6.2f} s" if figures.first_step else ""
    more += f", {max(figures.rates):8.2f} steps/s" if figures.rates else ""
    return (
        f"{figures.model:12} x{figures.towers:<2} {figures.contender:9} build {figures.build:6.2f} s{more}, "
        f"{figures.peak_memory / 2**20:6.0f} MiB"
    )


def environment() -> dict[str, str]:
    """Return the environment that commands of users have, in which byte code is saved."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

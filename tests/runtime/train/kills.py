"""Runs that are ended again and again, at random moments: `python -m tests.runtime.train.kills --times 25`.

One run directory is used from beginning to end. Each process goes on with what the one before it has left,
and is killed, signalled, or given a full disk at a moment drawn beforehand, anywhere from its start to its
last write. A last process is left in peace. What it ends with must be what an undisturbed run ends with, to
the last bit.

Where a small file system can be mounted (by root), the full disk is a real one. Elsewhere, and in the tests,
the processes may not write files beyond a size, which to them is much the same.
"""

import argparse
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from attrs import define, field, frozen

from tests.runtime.conftest import Project

Way = Literal["SIGKILL", "SIGTERM", "SIGINT", "full disk"]
WAYS: tuple[Way, ...] = ("SIGKILL", "SIGTERM", "SIGINT", "full disk")
PATIENCE = 120.0
LONGEST = 2.0
TRAINING = 0.7  # of the blows
STEPS = (250, 1_000_000)
LARGEST = 60_000  # bytes of a file on a disk that is nearly full; a checkpoint of the model has about 20,000
ENDS = {"SIGKILL": -9, "SIGTERM": 143, "SIGINT": 130, "full disk": 2}
EARLY = {"SIGTERM": -15, "SIGINT": -2}  # before Python has read what to do then
LOGGED, EVALUATED = 3, 40
SETTINGS = (
    "--set", "train.checkpoint_every=7",
    "--set", f"train.evaluate_every={EVALUATED}",
    "--set", f"train.log_every={LOGGED}",
    "--set", "train.keep=2",
    "--set", "train.summaries=all",
)  # fmt: skip


@frozen
class Blow:
    """One way of ending a process: `after` seconds from its start, or with `size` bytes left to write.

    With `training`, the seconds count from the first checkpoint that the process has written. It is to make
    `steps` steps, few or endlessly many, so that some processes are hit while they end.
    """

    way: Way
    after: float
    training: bool
    size: int
    steps: int


@frozen
class Outcome:
    """How a process ended: its exit code, the step that the run was at before and after, what it said."""

    blow: Blow
    code: int
    before: int | None
    after: int | None
    said: str = field(repr=False)


def draw(times: int, seed: int) -> list[Blow]:
    """Return as many blows, every way in turn, at moments that depend on the seed."""
    generator = random.Random(seed)  # noqa: S311  # nobody is to be kept from guessing these
    ways = [WAYS[at % len(WAYS)] for at in range(times)]
    generator.shuffle(ways)
    return [
        Blow(
            way,
            after=generator.uniform(0.0, LONGEST),
            training=generator.random() < TRAINING,
            size=generator.randrange(LARGEST),
            steps=generator.choice(STEPS),
        )
        for way in ways
    ]


def newest(project: Project) -> int | None:
    """Return the step of the newest checkpoint that counts."""
    manifests = (project.run_directory / "checkpoints").glob("model.ckpt-*.json")
    return max((int(path.stem.rpartition("-")[2]) for path in manifests), default=None)


@define
class Ordeal:
    """A project whose processes are ended, with what came of each; `disk` is its own and can be filled."""

    project: Project
    disk: Path | None = None
    outcomes: list[Outcome] = field(factory=list)

    def strike(self, blow: Blow) -> Outcome:
        """Start a process that goes on with the run, and end it; check that it did, and ended well."""
        before = newest(self.project)
        with self._room(blow) as limits:
            last = (before or 0) + blow.steps
            process = self.project.start("--set", f"train.steps={last}", *SETTINGS, **limits)
            try:
                said = self._end(process, blow)
            finally:
                process.kill()
                process.communicate()
        found = Outcome(blow, process.returncode, before, newest(self.project), said)
        self.outcomes.append(found)
        allowed = {ENDS[blow.way], EARLY.get(blow.way)} | ({0} if found.after == last else set())
        assert found.code in allowed, (found, said)
        assert "Traceback" not in said, said
        assert ("error[TFD73" in said) == (found.code == ENDS["full disk"]), said
        assert (found.after or 0) >= (found.before or 0), found
        return found

    def _end(self, process: subprocess.Popen[str], blow: Blow) -> str:
        """Do to a process what is drawn; return all that it has said."""
        if blow.way != "full disk":
            before, end = newest(self.project), time.monotonic() + PATIENCE
            while blow.training and newest(self.project) == before and time.monotonic() < end:
                if process.poll() is not None:
                    break
                time.sleep(0.01)
            try:
                process.wait(blow.after)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.Signals[blow.way])
        output, errors = process.communicate(timeout=PATIENCE)
        return output + errors

    @contextmanager
    def _room(self, blow: Blow) -> Iterator[dict[str, Any]]:
        """Leave as little room as a blow wants; give what the process is to be started with."""
        if blow.way != "full disk":
            yield {}
        elif self.disk is None:
            yield {"preexec_fn": lambda: _limit(blow.size)}
        else:
            filler = self.disk / "filler"
            with filler.open("wb") as file:
                file.write(bytes(max(shutil.disk_usage(self.disk).free - blow.size, 0)))
            yield {}
            filler.unlink()

    def finish(self, more: int) -> int:
        """Let a process make `more` further steps and end in peace; return the last step."""
        last = (newest(self.project) or 0) + more
        process = self.project.start("--set", f"train.steps={last}", "--resume", "auto", *SETTINGS)
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (output, errors)
        return last


def _limit(size: int) -> None:
    """Let no file of this process grow beyond `size` bytes, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def compare(disturbed: Project, calm: Project, last: int) -> None:
    """Check that two runs of `last` steps have the same variables, bit by bit, and the same history."""
    ours, theirs = disturbed.variables(last), calm.variables(last)
    assert ours.keys() == theirs.keys()
    different = [name for name, value in ours.items() if value.tobytes() != theirs[name].tobytes()]
    assert different == []
    different = sorted(_story(disturbed) ^ _story(calm))
    assert different == [], different
    assert (disturbed.run_directory / "model.keras").exists()
    parts = [path.name for path in disturbed.run_directory.rglob(".partial-*")]
    assert parts == []


def _story(project: Project) -> set[tuple[Any, ...]]:
    lines = [(line["step"], line["split"], line["loss"]) for line in project.history()]
    every = {"train": LOGGED, "test": EVALUATED}
    assert len(lines) == len({each[:2] for each in lines}), "a line twice"
    return {each for each in lines if each[0] % every[each[1]] == 0}  # others are of the end of a process


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small file system on `folder`; None where that is not possible."""
    program = shutil.which("mount") or "mount"
    command = [program, "-t", "tmpfs", "-o", "size=64m", "tfdeploy-kills", str(folder)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run([shutil.which("umount") or "umount", str(folder)], check=True)


def run(folder: Path, times: int, seed: int, disk: Path | None = None) -> Ordeal:
    """End a run `times` times and finish it; check that nothing was lost."""
    calm, disturbed = Project(_made(folder / "calm")), Project(_made(folder / "disturbed"))
    disturbed.run_directory = (disk or disturbed.folder) / "run"
    ordeal = Ordeal(disturbed, disk)
    for blow in draw(times, seed):
        ordeal.strike(blow)
    last = ordeal.finish(40)
    assert Ordeal(calm).finish(last) == last
    compare(disturbed, calm, last)
    return ordeal


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> None:
    """Print how every process ended."""
    parser = argparse.ArgumentParser(description="End a run again and again; see that it always goes on.")
    parser.add_argument("--times", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, small_disk(_made(Path(folder) / "disk")) as disk:
        ordeal = run(Path(folder), given.times, given.seed, disk)
    for each in ordeal.outcomes:
        since = "training" if each.blow.training else "start"
        timed = f"{each.blow.after:.2f} s of {since}"
        moment = f"{each.blow.size:,} B left" if each.blow.way == "full disk" else timed
        sys.stdout.write(
            f"{each.blow.way:<9} {moment:>18}  exit {each.code:>4}  step {each.before} -> {each.after}\n"
        )
    ways = ", ".join(
        f"{count} x {way}" for way, count in Counter(o.blow.way for o in ordeal.outcomes).items()
    )
    sys.stdout.write(
        f"{ways}; then finished, equal to an undisturbed run: {time.monotonic() - begun:.0f} s\n"
    )


if __name__ == "__main__":
    main()

"""What the plan of hundreds of clones of ResNet-50 takes: processor time and memory of `tfdeploy plan`.

`python -m benchmarks.many_clones`, with names of cases to choose some. The clones have 16 tasks with 8 GPUs
each, and 4 servers; those of 512 and of 4,096 have as many on each task. Every plan is a process of its own.
There is no peer that plans a graph, so that the figures are seconds and bytes, beside those that the same
commands took before steps were records.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from attrs import frozen

from benchmarks.figures import ManyClones
from benchmarks.race.run import ROOT

MODEL = (ROOT / "examples" / "resnet50.tfdeploy").read_text().partition("\ndevices {")[0]
SPEC = """
devices {{
  job "worker" {{
    tasks = {tasks}
    gpu = 8
  }}
  job "ps" {{ tasks = 4 }}
}}
clones {{ {batch} }}
place {{
  clones -> worker[*].gpu[*]
  {rules}
}}
update {{
  optimizer = Momentum(learning_rate = CosineDecay(0.1, decay_steps = 450_000), momentum = 0.9)
  aggregate = {aggregate}
}}
train {{ steps = 450_000 }}
"""
SERVERS, COPIES = "variables -> balanced(ps[*])", "variables -> replicated"
OWN = "variables -> sharded(worker[*].cpu[0])"
SINGLE = SERVERS + '\n  ops("logits/*") -> worker[3].gpu[2]'


@frozen
class Case:
    """A deployment that is planned.

    Attributes:
        aggregate: The aggregation.
        rules: The rules for variables and ops.
        batch: The batch.
        tasks: The number of tasks, each with 8 clones.
        before: The seconds and the bytes that the plan took before steps were records, if that was measured.
    """

    aggregate: str = "add_n"
    rules: str = SERVERS
    batch: str = "batch = 32"
    tasks: int = 16
    before: tuple[float, float] | None = None

    @property
    def spec(self) -> str:
        """The text of the spec."""
        return MODEL + SPEC.format(
            tasks=self.tasks, batch=self.batch, rules=self.rules, aggregate=self.aggregate
        )


CASES: Mapping[str, Case] = {
    "add_n": Case(),
    "tree": Case("tree", before=(73, 5.3e9)),
    "hierarchical": Case("hierarchical"),
    "shuffle": Case("shuffle"),
    "add_n, copies": Case("add_n", COPIES),
    "tree, copies": Case("tree", COPIES),
    "hierarchical, copies": Case("hierarchical", COPIES, before=(136, 11.3e9)),
    "variables on the clones' own tasks": Case(rules=OWN, before=(158, 21.7e9)),
    "unequal batches": Case(batch=f"batch = {[33] * 64 + [31] * 64}"),
    "a rule for a single device": Case(rules=SINGLE),
    "add_n, 512 clones": Case(tasks=64),
    "add_n, 4,096 clones": Case(tasks=512),
}


def run_many_clones(names: Sequence[str] = ()) -> Iterator[ManyClones]:
    """Yield what the plans take, of all cases or of those with some names."""
    for name in names or CASES:
        yield measure(name)


def measure(name: str) -> ManyClones:
    """Return what a plan takes.

    Raises:
        click.ClickException: There is no such case, or the command fails.
    """
    if name not in CASES:
        raise click.ClickException(f"no case {name!r}; there are {', '.join(CASES)}")
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        spec, said = Path(folder) / "spec.tfdeploy", Path(folder) / "said"
        spec.write_text(case.spec)
        with said.open("w") as output:
            command = [sys.executable, "-m", "tfdeploy", "plan", str(spec)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
            _, status, used = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise click.ClickException(f"{name}: {said.read_text().strip()}")
    seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss << 10
    return ManyClones(name, seconds, peak, datetime.now(UTC).date().isoformat())


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Print the processor seconds and the peak memory of each plan."""
    for each in run_many_clones(names):
        click.echo(f"{each.case:36}{each.seconds:7.1f} s{each.peak / 1e9:7.2f} GB")


if __name__ == "__main__":
    main()

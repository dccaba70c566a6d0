"""The batch script that runs all tasks of a spec's cluster under Slurm."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import cluster as errors

SECONDS_TO_END = 120
"""How long before the end of its time a job gets the signal after which it writes a checkpoint."""

_SCRIPT = """\
#!/bin/bash
{directives}

srun --ntasks={tasks} {command}
code=$?

# A job whose time is over, or whose process was killed, goes on from its last checkpoint in another job.
if [ "$code" -ge 128 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


def batch_script(spec: ir.Spec, path: str, *, name: str, time: str, options: Sequence[str]) -> str:
    """Return the script for `sbatch`.

    Raises:
        SpecError: The spec declares no jobs.
    """
    jobs = spec.devices.jobs
    if not jobs:
        raise SpecError([errors.nothing_to_deploy(spec.devices.span or spec.span)])
    tasks, gpus = sum(job.tasks for job in jobs), max(job.gpu for job in jobs)
    wanted = {
        "job-name": name,
        "ntasks": tasks,
        "ntasks-per-node": 1,
        **({"gpus-per-node": gpus} if gpus else {}),
        "time": time,
        "signal": f"TERM@{SECONDS_TO_END}",
    }
    directives = [f"--{option}={value}" for option, value in wanted.items()]
    directives += ["--requeue", "--open-mode=append"]
    return _SCRIPT.format(
        directives="\n".join(f"#SBATCH {each}" for each in directives),
        tasks=tasks,
        command=shlex.join(["compile-and-run", path, *options]),
    )

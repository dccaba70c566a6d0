"""TF_CONFIG: the environment variable by which cluster managers tell each process where it is.

Kubeflow's training operator sets it in every pod: `{"cluster": {job: ["host:port", ...]}, "task": {"type":
job, "index": number}}`. It calls the first worker `chief` or `master`, as a job of one task beside `worker`.
What the variable holds is never shown: environments hold secrets, and a slip may put one here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen

from dsl.addresses import split_address
from dsl.diagnostics import RunError
from dsl.errors import cluster as errors
from dsl.errors.words import counted, listed
from tfdeploy.runtime.cluster.addresses import Cluster, Task, chief_job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl import ir

VARIABLE = "TF_CONFIG"
CHIEFS = ("chief", "master")
FORM = '{"cluster": {"ps": ["host:port", ...], "worker": [...]}, "task": {"type": "worker", "index": 0}}'


@frozen
class Given:
    """What TF_CONFIG says, in the words of the spec; `task` is None for a process that is no task."""

    cluster: Cluster
    task: Task | None


def read_tf_config(text: str, jobs: tuple[ir.Job, ...]) -> Given | None:
    """Read the text of TF_CONFIG for a spec with `jobs`; None where it names no cluster.

    Raises RunError where it is not of the form, or does not have the spec's jobs with their tasks.
    """
    found = _object(text)
    addresses = _addresses(found.get("cluster") or {})
    if not addresses:
        if found.get("task"):
            raise _bad("names a task and has no `cluster`", advice=f"it is of the form {FORM}")
        return None
    names = [job.name for job in jobs]
    chief = next((each for each in CHIEFS if each in addresses and each not in names), None)
    task = _task(found.get("task"))
    if chief is not None:
        first = chief_job(dict.fromkeys(names))
        addresses[first] = addresses.pop(chief) + addresses.get(first, [])
        task = _moved(task, chief, first)
    _require_jobs(addresses, jobs)
    _require_addresses(addresses)
    cluster = Cluster.of({name: addresses[name] for name in names})
    if task is not None and task not in cluster:
        raise RunError(errors.no_such_task(task.ref, [each.ref for each in cluster.tasks], None))
    return Given(cluster, task)


def to_tf_config(cluster: Cluster, task: Task | None) -> str:
    """Return the text of TF_CONFIG for a task, or for a client that is none."""
    config: dict[str, Any] = {"cluster": {job: list(each) for job, each in cluster.jobs.items()}}
    if task is not None:
        config["task"] = {"type": task.job, "index": task.index}
    return json.dumps(config)


def _bad(reason: str, *notes: str, advice: str | None = None) -> RunError:
    return RunError(errors.bad_tf_config(reason, *notes, advice=advice))


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        at = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise _bad(f"is not JSON{f' ({at})' if at else ''}", advice=f"it is of the form {FORM}") from None
    if not isinstance(found, dict) or not isinstance(found.get("cluster") or {}, dict):
        raise _bad("is not an object with a `cluster` in it", advice=f"it is of the form {FORM}")
    return found


def _addresses(jobs: Mapping[str, Any]) -> dict[str, list[str]]:
    for name, each in jobs.items():
        if not isinstance(each, list) or not all(isinstance(address, str) for address in each):
            raise _bad(f"has no list of addresses for the job `{name}`", advice=f"it is of the form {FORM}")
    return {name: list(each) for name, each in jobs.items() if each}


def _task(written: Any) -> Task | None:
    if not written:
        return None
    advice = f"it is of the form {FORM}"
    if not isinstance(written, dict) or not isinstance(written.get("type"), str):
        raise _bad("has a `task` without a `type`", advice=advice)
    index = written.get("index", 0)
    digits = str(index)
    if isinstance(index, bool) or not isinstance(index, int | str) or not digits.isdecimal():
        raise _bad("has a `task` whose `index` is no number", advice=advice)
    return Task(written["type"], int(digits))


def _moved(task: Task | None, chief: str, first: str) -> Task | None:
    """Return the task in the spec's numbering, in which the chief comes before the others of its job."""
    if task is None or task.job not in {chief, first}:
        return task
    return Task(first, task.index if task.job == chief else task.index + 1)


def _require_jobs(addresses: Mapping[str, list[str]], jobs: tuple[ir.Job, ...]) -> None:
    """Raise RunError where the jobs are not those of the spec, or have other numbers of tasks."""
    declared = {job.name: job for job in jobs}
    strange = [name for name in addresses if name not in declared]
    if strange:
        advice = "parameter servers are the job `ps`; evaluations are the chief's, and need no job"
        raise _bad(
            f"has the jobs {listed(strange)}, which the spec does not",
            f"the spec has {listed(declared)}",
            advice=advice,
        )
    for name, job in declared.items():
        there = len(addresses.get(name, ()))
        if there != job.tasks:
            said = f"{there} {'address' if there == 1 else 'addresses'}"
            raise _bad(
                f"has {said} for the job `{name}`, of which the spec has {counted(job.tasks, 'task')}",
                advice=f"change the replicas, or the spec: `--set devices.{name}.tasks={max(there, 1)}`",
            )


def _require_addresses(addresses: Mapping[str, list[str]]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for job, each in addresses.items():
        for index, address in enumerate(each):
            try:
                parts = split_address(address)
            except ValueError as error:
                raise _bad(f"has no address for `{job}:{index}`: {error}") from None
            if parts in taken:
                raise _bad(f"has one address for `{taken[parts]}` and `{job}:{index}`")
            taken[parts] = f"{job}:{index}"

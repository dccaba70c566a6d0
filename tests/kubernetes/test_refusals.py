"""What `export` refuses: specs that have no place on Kubernetes, and options that do not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command


@pytest.mark.parametrize(
    ("options", "jobs", "message", "place"),
    [
        ((), "  cpu = 2", "error[TFD785]: the spec declares no jobs, so there are no tasks", "14:1"),
        (
            ("--kind", "TFJob"),
            '  job "ps" { tasks = 1 }\n  job "reader" { tasks = 1 }',
            "error[TFD786]: a TFJob has no replicas for a job `reader`",
            "16:3",
        ),
        (
            (),
            '  job "worker" { tasks = 1 }\n  job "Worker" { tasks = 1 }',
            "error[TFD787]: `Worker` cannot be a name in Kubernetes: the job `worker` is called so",
            "16:3",
        ),
        (
            ("--set", "update.mode=sync"),
            '  job "client" { tasks = 1 }',
            "error[TFD787]: `client` cannot be a name in Kubernetes: the client is called so",
            "15:3",
        ),
        (
            ("--name", "n" * 50),
            '  job "ps" { tasks = 1 }\n  job "worker_of_" { tasks = 1000 }',
            "is no DNS label of at most 63 characters",
            "16:3",
        ),
        (
            ("--set", "train.directory=../../etc"),
            '  job "worker" { tasks = 1 }',
            "error[TFD787]: `../../etc` cannot be a name in Kubernetes: it leads out of `/runs`",
            "",
        ),
    ],
    ids=["no jobs", "no replicas", "same name", "name of the client", "long name", "out of the folder"],
)
def test_specs_without_a_place_on_kubernetes(
    options: tuple[str, ...], jobs: str, message: str, place: str, export: Any, tmp_path: Path
) -> None:
    """What cannot be had is one error at the block or job, exit code 1, and nothing on standard output."""
    path = export.write(jobs=jobs)
    arguments = ("--kubernetes", "--image", "i", "--runs", "r", *options)
    done = Command(tmp_path)("export", path.name, *arguments)
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert (f"--> {path.name}:{place}\n" if place else "--> --set") in done.err
    assert done.err.splitlines()[-2] == "1 error"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "export needs one of --saved-model DIR, --kubernetes and --slurm"),
        (
            ("--saved-model", "new", "--kubernetes"),
            "export needs one of --saved-model DIR, --kubernetes and --slurm",
        ),
        (("--saved-model", "new", "--image", "i"), "--image goes with --kubernetes"),
        (("--kubernetes", "--image", "i", "--runs", "r", "--emulate"), "--emulate goes with --saved-model"),
        (("--kubernetes", "--runs", "r"), "--kubernetes needs --image"),
        (("--kubernetes", "--image", "i"), "--kubernetes needs --runs"),
        (
            ("--kubernetes", "--image", "i", "--runs", "r", "--name", "Run"),
            "'Run' is not made of small letters",
        ),
        (("--kubernetes", "--image", "i", "--runs", "r", "--port", "80"), "80 is not in the range"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together(
    arguments: tuple[str, ...], message: str, export: Any, tmp_path: Path
) -> None:
    """Wrong usage is said in words, with exit code 2."""
    done = Command(tmp_path)("export", export.write().name, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]

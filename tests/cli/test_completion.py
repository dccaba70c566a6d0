"""Completion in a shell: what the tables of the language know is offered while one types."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dsl.completions import override_completions


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("clones.", ("clones.count=", "clones.batch=", "clones.global_batch=")),
        ("update.mode=", ("update.mode=sync", "update.mode=async", "update.mode=local")),
        (
            "update.optimizer=Ada",
            tuple(f"update.optimizer=Ada{each}(" for each in ("delta", "grad", "m", "mW")),
        ),
        ("train.deterministic=t", ("train.deterministic=true",)),
        ("train.nothing=", ()),
        ("nothing.at=all", ()),
    ],
)
def test_paths_and_values_of_set(typed: str, offered: tuple[str, ...]) -> None:
    """Attributes are offered with their block, then the words and calls that an attribute takes."""
    assert sorted(override_completions(typed)) == sorted(offered)


def test_a_shell_is_answered() -> None:
    """The command answers bash as click's completion asks it, without a spec being read."""
    asked = {
        "COMP_WORDS": "tfdeploy check x.tfdeploy --set update.mod",
        "COMP_CWORD": "4",
        "_TFDEPLOY_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [sys.executable, "-c", "from tfdeploy.cli import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("plain,update.mode=\n", "")

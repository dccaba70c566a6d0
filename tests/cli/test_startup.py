"""Start-up is a feature: what the light commands load, and how long they take."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import ROOT

HEAVY = {"tensorflow", "keras", "rich", "cattrs", "numpy", "jsonschema"}
PROGRAM = (
    "import sys, atexit; sys.argv = ['tfdeploy', {arguments}]; "
    "atexit.register(lambda: print('loaded:', *sorted({{name.partition('.')[0] for name in sys.modules}}))); "
    "from tfdeploy.cli import main; main()"
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "examples/digits.tfdeploy"),
        ("check", "examples/digits.tfdeploy", "--set", "clones.cuont=3"),
        ("fmt", "--check", "examples/digits.tfdeploy"),
        ("show", "examples/digits.tfdeploy"),
        ("explain", "TFD402"),
    ],
    ids=lambda arguments: " ".join(arguments[:1]),
)
def test_light_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """After a command that needs no graph, neither TensorFlow nor any other heavy package is loaded."""
    program = PROGRAM.format(arguments=", ".join(map(repr, arguments)))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    loaded = set(done.stdout.splitlines()[-1].removeprefix("loaded: ").split())
    assert "tfdeploy" in loaded
    assert loaded & HEAVY == set()


def test_check_is_quick(tmp_path: Path) -> None:
    """Checking a spec takes less than 0.3 s, and little more than importing what it is built with.

    Processor time is measured, since other processes may keep this one waiting; byte code is compiled before.
    """
    arguments = "['tfdeploy', 'check', 'examples/digits.tfdeploy']"
    imports = _best("import lark, attrs, click", tmp_path)
    check = _best(f"import sys; sys.argv = {arguments}; import tfdeploy.__main__", tmp_path)
    assert check < 0.3
    assert check < 2.5 * imports


def _best(program: str, cache: Path, rounds: int = 7) -> float:
    """Return the least processor time, in seconds, of several runs of `program`."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache)}
    times = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)

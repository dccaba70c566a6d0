"""Light commands start quickly because they import nothing heavy; `make bench` measures how quickly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.folders import ROOT

HEAVY = {"tensorflow", "keras", "rich", "cattrs", "numpy", "jsonschema", "pygls", "lsprotocol"}
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
        ("init", "--list"),
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

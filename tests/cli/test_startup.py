"""Start-up is a feature: what the light commands load, and how long they take."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


def test_check_is_quick() -> None:
    """Checking a spec takes less than twice as long as importing what it is built with."""
    imports = _best("import lark, attrs, click")
    arguments = "['tfdeploy', 'check', 'examples/digits.tfdeploy']"
    check = _best(f"import sys; sys.argv = {arguments}; import tfdeploy.__main__")
    assert check < max(2 * imports, 0.3)


def _best(program: str, rounds: int = 7) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return min(times)

"""Light commands start quickly because they import nothing heavy; `make bench` measures how quickly."""

import subprocess
import sys
from ast import literal_eval

from tests.folders import ROOT

HEAVY = {"tensorflow", "keras", "rich", "cattrs", "numpy", "jsonschema", "pygls", "lsprotocol"}
LIGHT = {
    "check examples/digits.tfdeploy": 0,
    "check examples/digits.tfdeploy --set clones.cuont=3": 1,
    "fmt --check examples/digits.tfdeploy": 0,
    "show examples/digits.tfdeploy": 0,
    "explain TFD402": 0,
    "init --list": 0,
    "compile-and-run --help": 0,
    "plan --help": 0,
}
"""Commands that need no graph, and how they end."""

PROGRAM = """
import sys
from tfdeploy.cli import main

found = []
for line in sys.argv[1:]:
    sys.argv = ["tfdeploy", *line.split()]
    try:
        main()
    except SystemExit as ended:
        found.append((ended.code, sorted({name.partition(".")[0] for name in sys.modules})))
print("ended", found, file=sys.__stderr__)
"""


def test_light_commands_load_nothing_heavy() -> None:
    """After none of them TensorFlow or any other heavy package is loaded; one process runs them in turn."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *LIGHT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ended = literal_eval(done.stderr.splitlines()[-1].removeprefix("ended "))
    assert [code for code, _ in ended] == [*LIGHT.values()]
    assert [HEAVY.intersection(loaded) for _, loaded in ended] == [set()] * len(LIGHT)
    assert done.stdout.count("--emulate") >= 2

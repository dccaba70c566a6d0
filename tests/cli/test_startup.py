"""Light commands import nothing heavy, and others do it quietly; `make bench` measures how quickly."""

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from tests.cli.test_fuzz import SPEC
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


WITH_TENSORFLOW = (
    "plan s.tfdeploy",
    "why s.tfdeploy *",
    "diff s.tfdeploy s.tfdeploy",
    "suggest s.tfdeploy",
    "suggest s.tfdeploy --for balance --set clones.count=2000 --set devices.cpu=1",
    "compile s.tfdeploy --out built",
    "compile-and-run s.tfdeploy",
    "verify s.tfdeploy",
    "evaluate s.tfdeploy",
    "predict s.tfdeploy --input s.csv --output out.csv",
    "export s.tfdeploy --saved-model model",
    "calibrate s.tfdeploy --threads 1 --answer answer.json",
    "init new.tfdeploy --from m.keras",
    "init new.tfdeploy --data s.csv",
)
QUIETLY, OTHERWISE = 77, 78

DOOR = f"""
import sys, traceback

class Door:
    def find_spec(self, name, *_):
        if name in ("keras", "tensorflow"):
            calls = [each.f_code.co_name for each, _ in traceback.walk_stack(None)]
            raise SystemExit({QUIETLY} if "start_tensorflow" in calls else {OTHERWISE})

sys.meta_path.insert(0, Door())
"""


def test_tensorflow_is_imported_by_what_silences_it(tmp_path: Path) -> None:
    """Elsewhere it would write its messages, and end the process if that may have too little memory."""
    (tmp_path / "s.tfdeploy").write_text(SPEC)
    (tmp_path / "s.csv").write_text("a,b\n1,2\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", DOOR + PROGRAM, *WITH_TENSORFLOW],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input="a turn of calibrate",
        capture_output=True,
        text=True,
        check=True,
    )
    ended = literal_eval(done.stderr.splitlines()[-1].removeprefix("ended "))
    codes = dict(zip(WITH_TENSORFLOW, (code for code, _ in ended), strict=True))
    assert codes == dict.fromkeys(WITH_TENSORFLOW, QUIETLY)


@pytest.mark.parametrize(
    ("settings", "variable"), [('{"floatx": "float7"}', ""), ("[]", ""), ("{}", "KERAS_MAX_EPOCHS")]
)
def test_settings_that_keras_cannot_read_are_told(tmp_path: Path, settings: str, variable: str) -> None:
    """They keep it from being imported, which is no fault of the tool."""
    (tmp_path / "s.tfdeploy").write_text(SPEC)
    (tmp_path / "keras.json").write_text(settings)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tfdeploy", "plan", "s.tfdeploy"],
        cwd=tmp_path,
        env=environment | ({variable: "x"} if variable else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error[TFD191]: Keras cannot read its settings: ")

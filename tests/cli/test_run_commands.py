"""`compile-and-run`, `plan` and `compile` as processes, with what they print and leave."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.folders import ROOT

DIGITS = ROOT / "examples" / "digits.tfdeploy"
CIFAR10 = ROOT / "examples" / "cifar10.tfdeploy"


SITE = """
import atexit, pathlib, sys
file = pathlib.Path(__file__).with_name("imported")
atexit.register(lambda: file.write_text(" ".join(sorted({name.partition(".")[0] for name in sys.modules}))))
"""
"""What Python imports when it starts: it leaves the names of all packages that the process has imported."""


def tfdeploy(*arguments: str | Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process, forked unless it is executed with the code of a folder `site`."""
    command = [sys.executable, "-m", "tfdeploy", *map(str, arguments)]
    if site is not None:
        (site / "sitecustomize.py").write_text(SITE)
        env = {**os.environ, "PYTHONPATH": str(site)}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return forked.run(command, cwd=ROOT, text=True)


def test_an_executed_compile_and_run(tmp_path: Path) -> None:
    """Without a terminal there are plain lines, the totals of the map, a summary, and last the result.

    Scikit-learn, which Keras would import, is not.
    """
    site, run = tmp_path / "site", tmp_path / "run"
    site.mkdir()
    done = tfdeploy(
        "compile-and-run",
        DIGITS,
        "--json",
        "--set",
        f"train.directory={run}",
        "--set",
        "train.steps=20",
        "--set",
        "train.log_every=10",
        site=site,
    )
    assert (done.returncode, done.stderr) == (0, "")
    imported = (site / "imported").read_text().split()
    assert "keras" in imported
    assert "sklearn" not in imported
    lines = done.stdout.splitlines()
    result = json.loads(lines[-1])
    assert (result["status"], result["steps"], result["directory"]) == ("finished", 20, str(run))
    assert any(line.startswith("cpu[0] ") for line in lines)
    assert [line.split("  ")[0] for line in lines if line.startswith("step ")] == [
        "step 10/20",
        "step 20/20",
        "step 20",
    ]
    assert "finished at step 20" in lines
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("spec", "folder", "code", "said"),
    [
        (CIFAR10, "run", 1, ["error[TFD504]: this machine has no `gpu[0..2]`", "--emulate"]),
        (DIGITS, "file/run", 2, ["error[TFD732]", "not a directory"]),
    ],
)
def test_a_run_that_cannot_begin(tmp_path: Path, spec: Path, folder: str, code: int, said: list[str]) -> None:
    """GPUs that the machine lacks, and a run directory below a file: an error, and nothing is left behind."""
    (tmp_path / "file").write_text("")
    done = tfdeploy("compile-and-run", spec, "--set", f"train.directory={tmp_path / folder}")
    assert (done.returncode, done.stdout) == (code, "")
    assert all(each in done.stderr for each in said)
    assert not (tmp_path / "run").exists()


def test_compile(tmp_path: Path) -> None:
    """A program that knows only TensorFlow can load, initialise, save and restore the graph."""
    done = tfdeploy("compile", DIGITS, "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [
        str(tmp_path / name) for name in ("graph.pb", "placement.json", "spec.tfdeploy")
    ]
    import tensorflow as tf

    meta = tf.compat.v1.MetaGraphDef.FromString((tmp_path / "graph.pb").read_bytes())
    with tf.Graph().as_default() as graph:
        saver = tf.compat.v1.train.import_meta_graph(meta)
        (init,) = graph.get_collection("init_op")
        (step,) = graph.get_collection("train_op")
        config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
        with tf.compat.v1.Session(config=config) as session:
            session.run(init)
            prefix = saver.save(session, str(tmp_path / "model.ckpt"))
            saver.restore(session, prefix)
    assert step.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert tf.train.load_checkpoint(prefix).get_tensor("global_step") == 0

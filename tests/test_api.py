"""`import tfdeploy`: what users of the package have."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfdeploy
from dsl import ir
from grammar.unparse import unparse
from tests.folders import ROOT
from tfdeploy.api import load

DIGITS = ROOT / "examples" / "digits.tfdeploy"


def test_the_version_is_that_of_the_package() -> None:
    """The version stands in one place, which is also what packages are built from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert tfdeploy.__version__ == project["version"]


def test_load_reads_a_spec_with_overrides() -> None:
    """Overrides are Python values by their paths."""
    spec = tfdeploy.load(
        DIGITS,
        overrides={
            "clones.count": 4,
            "clones.batch": [8, 8, 8, 4],
            "update.ema": None,
            "train.deterministic": True,
            "train.directory": 'runs/"a" b',
            "update.optimizer.learning_rate": 0.5,
        },
        warn=[].append,  # of a constant that nothing uses any more
    )
    assert spec.clones == ir.Clones(count=4, batch=(8, 8, 8, 4))
    assert (spec.update.ema, spec.train.deterministic) == (None, True)
    assert spec.train.directory == 'runs/"a" b'
    assert spec.update.optimizer == ir.Call("Adam", (), {"learning_rate": 0.5})


def test_lists_of_strings_are_quoted(tmp_path: Path) -> None:
    """Strings within a list are written as strings, whatever is in them."""
    path = tmp_path / "cluster.tfdeploy"
    path.write_text(
        'tfdeploy = 1\nmodel "m" { x = input(float32, [4]), output = x }\n'
        'devices { job "ps" { tasks = 1 }, job "worker" { hosts = ["a:1"] } }\n'
    )
    spec = load(path, {"devices.worker.hosts": ["b:1", "c:2"]})
    assert spec.devices.jobs[1].hosts == ("b:1", "c:2")
    with pytest.raises(tfdeploy.SpecError) as caught:
        load(path, {"devices.worker.hosts": ["b:1", 'c"\\:2']})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == (
        '`c"\\:2` is no address of a task: names of hosts have letters, digits, dots and hyphens'
    )


def test_spec_error_has_the_diagnostics() -> None:
    """A bad spec raises SpecError, which lists what is wrong and where."""
    with pytest.raises(tfdeploy.SpecError) as caught:
        tfdeploy.load(DIGITS, overrides={"clones.cuont": 4})
    (diagnostic,) = caught.value.diagnostics
    assert isinstance(diagnostic, tfdeploy.Diagnostic)
    assert diagnostic.code == "TFD212"
    assert diagnostic.span.source.name.startswith("--set")


def test_numbers_of_numpy_and_paths_are_values(tmp_path: Path) -> None:
    """So a loop over `np.logspace` needs no conversion, and a directory may be a Path."""
    changes = {
        "clones.batch": np.int64(4),
        "train.directory": tmp_path / "a run",
        "train.seed": np.array(3),
    }
    spec = load(DIGITS, changes)
    assert (spec.clones.batch, spec.train.directory, spec.train.seed) == (4, str(tmp_path / "a run"), 3)
    for rate in np.linspace(0.5, 0.75, 2):
        spec = load(DIGITS, {"let.rate": rate})
        assert f"ExponentialDecay({rate:g}, " in unparse(spec)


def test_threads_compile_at_once() -> None:
    """Each gets its graph, and what Keras keeps for the process is as it was for the next."""
    spec = load(DIGITS)
    with ThreadPoolExecutor(3) as pool:
        graphs = list(pool.map(tfdeploy.compile, [spec] * 6))
    names = [[each.name for each in graph.graph.get_operations()] for graph in graphs]
    assert names == [[each.name for each in tfdeploy.compile(spec).graph.get_operations()]] * 6


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (partial(tfdeploy.run, resume="always"), "resume is 'auto', 'never' or 'must', not 'always'"),
        (
            lambda spec: tfdeploy.predict(spec, "a.csv", "b.csv", split="nosuch"),
            "split is 'train', 'validation' or 'test', not 'nosuch'",
        ),
        (
            lambda spec: tfdeploy.predict(spec, "a.csv", "o.txt"),
            r"predictions is a \.csv or \.npz file, not 'o\.txt'",
        ),
        (
            lambda spec: tfdeploy.predict(spec, Path("a"), "b.csv"),
            r"examples is a \.csv or \.npz file, not 'a'",
        ),
    ],
)
def test_a_word_that_means_nothing_is_refused(call: Callable[[Any], object], said: str) -> None:
    """It is not taken for the default; a split that there cannot be and files of other kinds are none."""
    with pytest.raises(ValueError, match=said):
        call(load(DIGITS))


@pytest.mark.parametrize("given", ["digits.tfdeploy", None])
@pytest.mark.parametrize(
    "call",
    [
        tfdeploy.compile,
        tfdeploy.run,
        tfdeploy.evaluate,
        tfdeploy.plan,
        tfdeploy.to_html,
        tfdeploy.map_placement,
        tfdeploy.forecast,
        lambda given: tfdeploy.predict(given, "a.csv", "b.csv"),
        lambda given: tfdeploy.export(given, "folder"),
        lambda given: tfdeploy.diff(given, given),
        lambda given: tfdeploy.why(given, "x"),
    ],
)
def test_what_is_no_spec_is_refused(call: Callable[[Any], object], given: str | None) -> None:
    """A path is not read in its place; the message says what is."""
    with pytest.raises(TypeError, match=f"spec is what `tfdeploy.load` returns, not {given!r}"):
        call(given)


@pytest.mark.parametrize(
    "overrides", ["clones.count=4", ["clones.count=4"], [("clones.count", 4)], {1: 4}, 0]
)
def test_overrides_that_are_no_mapping_of_names_are_refused(overrides: Any) -> None:
    """They are not taken for none."""
    with pytest.raises(TypeError, match="overrides is a mapping with paths of attributes as its keys, not"):
        load(DIGITS, overrides)


def test_unknown_name() -> None:
    """The package says what it does not have, as modules do."""
    with pytest.raises(AttributeError, match="module 'tfdeploy' has no attribute 'lod'"):
        _ = tfdeploy.lod


def test_all_names_are_there_and_import_is_light() -> None:
    """Every public name can be had, and importing the package loads next to nothing."""
    assert set(tfdeploy.__all__) <= set(dir(tfdeploy))
    heavy = "{'lark', 'click', 'attrs', 'tensorflow', 'numpy'}"
    code = f"import sys, tfdeploy; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "\n"


def test_module_runs_as_a_program() -> None:
    """`python -m tfdeploy` is the command."""
    done = subprocess.run(
        [sys.executable, "-m", "tfdeploy", "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("tfdeploy ")


def test_a_process_without_eager_execution_is_refused() -> None:
    """As those of programs that were written for TensorFlow 1."""
    code = f"""
import tensorflow as tf
import tfdeploy
tf.compat.v1.disable_v2_behavior()
try:
    tfdeploy.compile(tfdeploy.load({str(DIGITS)!r}))
except tfdeploy.RunError as fault:
    print(fault)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.startswith("TFD799: ")

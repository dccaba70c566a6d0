"""Functions of the user's: where they are found, what is said if they fail, and which line is shown."""

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import tensorflow as tf

from compiler.graph.adapters.tensorflow_private import context, without_op_callbacks
from compiler.graph.tower.traces import Traces
from compiler.graph.user_code import (
    UserCode,
    comparing_elements,
    kept_keras,
    load_function,
    plain_message,
    raised_at,
)
from dsl.diagnostics import Diagnostic, RunError, SpecError
from tests.graphs import graph_of, settings_of_keras
from tests.models import model
from tests.support import marked, refusal_of

MODULE = """
import json
VALUE = 3

def _hidden():
    pass

def scaled(x):
    return x * VALUE

def failing(text):
    return json.loads(text)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a spec, with a module beside it and one in a package."""
    (tmp_path / "own_code.py").write_text(MODULE)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "inner.py").write_text("def twice(x):\n    return 2 * x\n")
    (tmp_path / "json.py").write_text("def here():\n    return 'beside the spec'\n")
    (tmp_path / "broken.py").write_text("import sys\nraise KeyError('no')\n")
    (tmp_path / "unclear.py").write_text("def half(:\n")
    (tmp_path / "needs.py").write_text("import no_such_module_of_anybody\n")
    return tmp_path


def refused(path: str, folder: Path, *, of_model: bool = False) -> Diagnostic:
    """Return what is said of a function that cannot be used."""
    with pytest.raises(SpecError if of_model else RunError) as caught:
        load_function(path, folder, None, of_model=of_model)
    found = caught.value
    if isinstance(found, SpecError):
        return found.diagnostics[0]
    assert isinstance(found, RunError)
    return found.diagnostic


def test_a_module_beside_the_spec_is_found_first(folder: Path) -> None:
    """By its path, also if an installed one has its name, which stays what it is for everybody else."""
    before = list(sys.path)
    assert load_function("own_code:scaled", folder, None)(2) == 6
    assert load_function("parts.inner:twice", folder, None)(2) == 4
    assert load_function("json:here", folder, None)() == "beside the spec"
    assert load_function("textwrap:dedent", folder, None)("  a") == "a"
    assert sys.modules["json"] is json
    assert sys.path == before
    assert "own_code" not in sys.modules
    assert load_function("own_code:scaled", folder, None) is load_function("own_code:scaled", folder, None)


@pytest.mark.parametrize(
    ("path", "said", "advice"),
    [
        ("scaled", "this does not name a function", "write `module:function`"),
        (":scaled", "this does not name a function", "write `module:function`"),
        ("own_code:", "this does not name a function", "write `module:function`"),
        ("own_code:scale", "its module has no function `scale`", "there is `scaled`"),
        ("own_code:hidden", "its module has no function `hidden`", None),
        ("own_code:VALUE", "its module has no function `VALUE`", ANY),
        ("nowhere:any", "there is no module `nowhere`, neither beside the spec nor installed", None),
        ("broken:any", "raises KeyError: 'no'", None),
        ("needs:any", "raises ModuleNotFoundError: No module named 'no_such_module_of_anybody'", None),
    ],
)
def test_what_is_wrong_with_a_function_is_said(folder: Path, path: str, said: str, advice: Any) -> None:
    """No name, no module, no such function, or a module that fails."""
    found = refused(path, folder)
    shown = f"{found.message} {found.text} {' '.join(found.notes)}"
    assert said in shown
    assert found.help == advice


def test_a_module_that_fails_is_shown_at_its_line(folder: Path) -> None:
    """For data at the line itself; for a model at the step, with the line in a note. It is tried again."""
    assert "broken:any" in refused("broken:any", folder).message
    of_data = refused("broken:any", folder)
    assert marked(of_data) == "raise KeyError('no')"
    of_model = refused("broken:any", folder, of_model=True)
    assert any("broken.py:2: `raise KeyError('no')`" in each for each in of_model.notes)
    unclear = refused("unclear:half", folder)
    assert marked(unclear) == "def half(:"


def test_the_innermost_line_of_the_users_is_named(folder: Path) -> None:
    """Below it there may be lines of Python's own, and above it lines of anybody."""
    failing = load_function("own_code:failing", folder, None)
    with pytest.raises(ValueError, match="Expecting value") as caught:
        failing("?")
    place = raised_at(caught.value)
    assert (Path(place[0]).name, place[1]) == (
        "own_code.py",
        1 + MODULE[: MODULE.index("return json")].count("\n"),
    )
    assert raised_at(ValueError("never raised")) is None


@pytest.mark.parametrize(
    ("message", "plain"),
    [
        ("wrong", "wrong"),
        ("", ""),
        ("\n  first line  \nsecond", "first line"),
        ("\x1b[1mbold\x1b[0m words", "bold words"),
        ("Exception encountered when calling Own.call().\n\n\x1b[1mwrong\x1b[0m\n", "wrong"),
        ("Exception encountered when calling Own.call().", ""),
    ],
)
def test_messages_are_shown_without_what_keras_writes_around_them(message: str, plain: str) -> None:
    """One line, without colours."""
    assert plain_message(ValueError(message)) == plain


def test_exceptions_of_guarded_functions_are_diagnostics(folder: Path) -> None:
    """At the step; diagnostics and a lack of memory pass through, and a result is given back."""
    code = UserCode("`own`", None)
    assert code.guarded(None) is None
    failing, scaled = (
        code.guarded(load_function(f"own_code:{each}", folder, None)) for each in ("failing", "scaled")
    )
    assert scaled is not None
    assert failing is not None
    assert scaled(2) == 6
    found = refusal_of(lambda: failing("?"))
    assert any("own_code.py:12: `return json.loads(text)`" in each for each in found.notes)
    for fault in (SpecError([found]), MemoryError()):
        with pytest.raises(type(fault)) as again, code.running():
            raise fault
        assert again.value is fault


CHANGING = """
import os
import keras
import tensorflow as tf

keras.config.set_dtype_policy("mixed_float16")
keras.config.set_floatx("float64")
keras.config.set_image_data_format("channels_first")
tf.debugging.enable_check_numerics()
os.chdir("parts")

def layer():
    return keras.layers.Dense(2)
"""


def test_a_module_changes_nothing_of_the_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the folder, settings of Keras or what is called for each op, unless what it does is to last."""
    (folder / "changing.py").write_text(CHANGING)
    monkeypatch.chdir(folder)
    before = settings_of_keras()
    load_function("changing:layer", folder, None)
    assert (Path.cwd(), settings_of_keras(), list(context().op_callbacks)) == (folder, before, [])
    (folder / "lasting.py").write_text(CHANGING.replace("parts", "parts/.."))
    with kept_keras(), without_op_callbacks():
        load_function("lasting:layer", folder, None, lasting=True)
        assert settings_of_keras()["dtype_policy"] == "mixed_float16"
        assert len(context().op_callbacks) == 1


def test_a_step_has_no_ops_that_others_want_beside_each() -> None:
    """Such as checks of numbers, which may be on in the process of somebody who uses the package."""
    usual = graph_of(model("dense"), seed=1, traces=Traces(".")).graph.as_graph_def()
    with without_op_callbacks():
        tf.debugging.enable_check_numerics()
        asked = list(context().op_callbacks)
        found = graph_of(model("dense"), seed=1, traces=Traces(".")).graph.as_graph_def()
        assert list(context().op_callbacks) == asked != []
    tf.debugging.disable_check_numerics()
    assert found == usual


def test_tensors_are_compared_by_their_elements() -> None:
    """As in eager code, and only while code of the user's runs; None is equal to no tensor."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.constant([0, 1, 2])
        before = tf.Tensor.__eq__, tf.Tensor.__ne__
        with comparing_elements():
            equal, other = x == 1, x != 1
            of_another_shape = (x == [1, 2], x != [1, 2])
            nothing = (x == None, x != None)  # noqa: E711
        assert (tf.Tensor.__eq__, tf.Tensor.__ne__) == before
        assert session.run([equal, other])[0].tolist() == [False, True, False]
        assert session.run([equal, other])[1].tolist() == [True, False, True]
        assert [bool(each) for each in session.run(of_another_shape)] == [False, True]
        assert nothing == (False, True)

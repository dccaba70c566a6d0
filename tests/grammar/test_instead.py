"""What others have and this language lacks: each message says what to write instead."""

import re

import pytest

import grammar
from dsl import schema
from dsl.instead import OPERATIONS, TRANSFORMS
from dsl.schema import signatures

MODEL = """\
tfdeploy = 1
model "m" {{
  x = input(float32, [4])
  g = {written}
  y = x -> Dense(2)
  output = y
}}
"""


def helps(written: str) -> list[str]:
    """Return the advice about a binding of a model."""
    found = grammar.read("a.tfdeploy", text=MODEL.format(written=written)).diagnostics
    return [f"{each.help or ''} {' '.join(each.notes)}" for each in found if each.is_error]


@pytest.mark.parametrize("operator", OPERATIONS)
def test_operators_of_python(operator: str) -> None:
    """Each has a function, which there is."""
    written = f"{operator} x" if operator in {"not", "~"} else f"x {'!=' if operator == '!' else operator} x"
    first = helps(written)[0]
    functions = re.findall(r"`ops\.(\w+)\(", first)
    assert functions == re.findall(r"(\w+)\(", OPERATIONS[operator])
    assert all(signatures.find("operation", each) is not None for each in functions)


@pytest.mark.parametrize(
    "call", ["ops.random.normal([4])", "keras.random.uniform([4])", "tf.random.normal([4])"]
)
def test_random_numbers(call: str) -> None:
    """Layers draw them."""
    (said,) = helps(call)
    assert "`x -> GaussianNoise(0.1)`" in said
    assert "python(" in said


@pytest.mark.parametrize("prefix", ["ops.nn.", "tf.nn.", "keras.ops.", "tf.math."])
def test_functions_under_other_names(prefix: str) -> None:
    """The function of the same last name is named."""
    (said,) = helps(f"{prefix}relu(x)")
    assert "`ops.relu`" in said


@pytest.mark.parametrize("name", TRANSFORMS)
def test_methods_of_tf_data(name: str) -> None:
    """Each that is no transform has advice, with its brackets and without."""
    assert schema.function("transform", name) is None
    for written in (name, f"{name}(3)"):
        text = f'tfdeploy = 1\ndata {{ train = npz("a.npz") -> {written} }}\n{MODEL.format(written="x")[13:]}'
        found = [each for each in grammar.read("a.tfdeploy", text=text).diagnostics if each.code == "TFD404"]
        assert [each.help for each in found] == [TRANSFORMS[name]]


def test_a_tensor_that_a_source_lacks() -> None:
    """Which sources could have it, for an input of the model and for a transform."""
    text = MODEL.format(written="x") + 'data { train = images("a", [2, 2]) -> cast(w, float32) }\n'
    (found,) = (each for each in grammar.read("a.tfdeploy", text=text).diagnostics if each.code == "TFD401")
    assert '`csv("a.csv", w = "column")`' in found.help
    text = MODEL.format(written="x") + 'data { train = images("a", [2, 2]) }\n'
    (found,) = (each for each in grammar.read("a.tfdeploy", text=text).diagnostics if each.code == "TFD409")
    assert '`csv("a.csv", x = "column")`' in found.help

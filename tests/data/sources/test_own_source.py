"""A source is added by the places that CONTRIBUTING lists; then specs name it, and graphs read it."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import grammar
from dsl import ir
from dsl.schema import data_functions, functions
from dsl.schema.types import Argument, Function, integer
from tests.data.conftest import Reader
from tfdeploy import data
from tfdeploy.data import Field, arguments
from tfdeploy.data.sources.base import Context, Source

TEXT = """tfdeploy = 1
model "m" {{
  {} = input(float32, [2])
  output = {} -> Dense(1)
}}
data {{ train = {} }}
"""


class Counting(Source):
    """`counting(8)`: examples with their numbers."""

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.length = self.given["count"]
        self.fields = (Field("number", "float32", (2,)),)

    def records(self) -> Any:
        """Return the numbers."""
        return tf.data.Dataset.range(self.length)

    def decode(self, record: Any) -> dict[str, Any]:
        """Return the examples of some numbers."""
        return {"number": tf.cast(tf.stack([record, -record], -1), tf.float32)}


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add it: a row of the language, and its class."""
    count = Argument("count", integer(low=1), "how many examples there are", required=True)
    row = Function("counting", (count,), doc="examples with their numbers", tensors=("number",))
    sources = (*data_functions.SOURCES, row)
    monkeypatch.setattr(data_functions, "SOURCES", sources)
    monkeypatch.setitem(functions.FUNCTIONS, "source", sources)
    monkeypatch.setitem(arguments._FUNCTIONS, "counting", row)
    monkeypatch.setitem(data.SOURCES, "counting", Counting)


def test_it_is_read_from_a_spec(reader: Reader) -> None:
    """Its examples come in their order, in batches."""
    spec = grammar.read("own.tfdeploy", text=TEXT.format("number", "number", "counting(5)")).spec
    stream = reader.open(spec.data.train.source, wanted={"number": ("float32", (2,))})
    found = np.concatenate([each["number"] for each in reader.batches(stream, 2)])
    np.testing.assert_array_equal(found[:4], [[0, 0], [1, -1], [2, -2], [3, -3]])


@pytest.mark.parametrize(
    ("name", "source", "code"),
    [("number", "counting(0)", "TFD305"), ("number", "countin(5)", "TFD404"), ("x", "counting(5)", "TFD409")],
)
def test_what_is_wrong_is_refused(name: str, source: str, code: str) -> None:
    """Its arguments, its name, and an input that it has no tensor for."""
    (found,) = grammar.read("own.tfdeploy", text=TEXT.format(name, name, source)).diagnostics
    assert found.code == code

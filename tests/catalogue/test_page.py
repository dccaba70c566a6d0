"""The page of Keras's names lists what is tried here, and nothing else."""

import re
from collections.abc import Mapping

import keras
import pytest

import grammar
from dsl.schema import signatures
from tests.catalogue.layers import LAYERS
from tests.catalogue.objects import (
    ACTIVATIONS,
    CONSTRAINTS,
    INITIALIZERS,
    LOSSES,
    METRICS,
    OPTIMIZERS,
    REGULARIZERS,
    SCHEDULES,
)
from tests.catalogue.operations import OPERATIONS
from tools.reference.keras_names import TITLES, shown

CASES: Mapping[str, Mapping[str, str]] = {
    "layer": LAYERS,
    "loss": LOSSES,
    "metric": METRICS,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "regularizer": REGULARIZERS,
    "initializer": INITIALIZERS,
    "constraint": CONSTRAINTS,
    "activation": ACTIVATIONS,
    "operation": OPERATIONS,
}
MODULES = {
    "layer": keras.layers,
    "loss": keras.losses,
    "metric": keras.metrics,
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}


@pytest.mark.parametrize("category", sorted({*TITLES} - {"application"}))
def test_everything_on_the_page_has_a_case(category: str) -> None:
    """The page lists what is tried here, and an alias is the same object of Keras as its class."""
    aliases = {name for name in shown(category) if signatures.find(category, name).name != name}  # type: ignore[union-attr]  # all are known
    assert set(shown(category)) - aliases == CASES[category].keys()
    for name in aliases:
        module = MODULES[category]
        assert getattr(module, name) is getattr(module, signatures.find(category, name).name)  # type: ignore[union-attr]  # all are known
    for name, written in CASES[category].items():
        assert re.search(rf"\b{re.escape(name)}\b", written), f"the case of `{name}` does not use it"


@pytest.mark.parametrize(
    ("written", "advice"),
    [("ops.gcd(x, x)", "layer of your own"), ("x -> Equalization()", "write `AutoContrast()`")],
)
def test_what_the_page_leaves_out_is_refused_with_what_to_do(written: str, advice: str) -> None:
    """A function or layer of Keras that cannot work in a model is not taken for a misspelt name."""
    text = f"""
tfdeploy = 1
model "m" {{
  x = input(int32, [4])
  y = {written}
  output = y
}}
"""
    (found,) = grammar.read("test.tfdeploy", text=text).diagnostics
    assert found.code == "TFD404"
    assert advice in found.help
    assert found.fix is None

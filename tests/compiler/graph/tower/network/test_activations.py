"""Activations that are written as calls, with and without arguments."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from compiler.graph.tower.network.network import activation_of

NUMBERS = np.array([[-2.0, -0.5, 0.5, 3.0]], np.float32)


@pytest.mark.parametrize("name", ["relu", "softmax", "leaky_relu", "tanh"])
def test_without_arguments_an_activation_is_its_name(name: str) -> None:
    """As if it were written without brackets."""
    assert activation_of(name) == name


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "wanted"),
    [
        ("leaky_relu", [], {"negative_slope": 0.5}, [-1.0, -0.25, 0.5, 3.0]),
        ("leaky_relu", [0.5], {}, [-1.0, -0.25, 0.5, 3.0]),
        ("relu", [], {"max_value": 2.0}, [0.0, 0.0, 0.5, 2.0]),
        ("relu", [0.5], {"max_value": 2.0}, [-1.0, -0.25, 0.5, 2.0]),
        ("elu", [2.0], {}, [2 * np.expm1(-2), 2 * np.expm1(-0.5), 0.5, 3.0]),
    ],
)
def test_arguments_go_to_the_activation(
    name: str, args: list[Any], kwargs: dict[str, Any], wanted: list[float]
) -> None:
    """By place and by name, and what is not given has its default."""
    made = activation_of(name, *args, **kwargs)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(made(NUMBERS)), [wanted], rtol=1e-6)

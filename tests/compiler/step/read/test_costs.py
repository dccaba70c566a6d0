"""What the time of an op depends on, and the bytes that it moves, read from small graphs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.step_records import record_of
from compiler.step.read.costs import cost_of

F32 = 4  # bytes


def port(*shape: int | None, name: str = "x") -> Any:
    """Add an input."""
    return tf.compat.v1.placeholder(tf.float32, shape, name)


def product(*, transposed: bool) -> Any:
    """Add a product of [2, 3] and [3, 5]."""
    first = port(3, 2) if transposed else port(2, 3)
    return tf.raw_ops.MatMul(a=first, b=port(3, 5, name="y"), transpose_a=transposed, name="op")


def biased() -> Any:
    """Add a convolution with its bias."""
    made = tf.raw_ops.Conv2D(
        input=port(1, 6, 6, 2), filter=port(3, 3, 2, 4, name="w"), strides=[1, 2, 2, 1], padding="SAME"
    )
    return tf.raw_ops.BiasAdd(value=made, bias=port(4, name="b"), name="op")


def unknown() -> Any:
    """Add a tensor of which neither shape nor rank is known."""
    return tf.raw_ops.AddV2(
        x=tf.compat.v1.placeholder(tf.float32, None), y=port(None, 3, name="y"), name="op"
    )


def updated() -> Any:
    """Add the update of a variable of 20 numbers."""
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[4, 5])
    return tf.raw_ops.ResourceApplyGradientDescent(
        var=handle, alpha=0.5, delta=port(4, 5), use_locking=True, name="op"
    )


CASES: dict[str, tuple[Callable[[], Any], tuple[str, ...], list[str], int, int]] = {
    "product": (
        lambda: product(transposed=False),
        ("float32[2,3]", "float32[3,5]"),
        ["transpose_a=False", "transpose_b=False"],
        2 * 2 * 3 * 5,
        F32 * (6 + 15 + 10),
    ),
    "transposed": (
        lambda: product(transposed=True),
        ("float32[3,2]", "float32[3,5]"),
        ["transpose_a=True", "transpose_b=False"],
        2 * 2 * 3 * 5,
        F32 * (6 + 15 + 10),
    ),
    "biased": (
        biased,
        ("float32[1,3,3,4]", "float32[4]"),
        ["after Conv2D(float32[1,6,6,2], float32[3,3,2,4];", "strides=1,2,2,1", "padding=SAME"],
        36,
        F32 * (36 + 4 + 36),
    ),
    "filled": (
        lambda: tf.raw_ops.Fill(dims=[2, 3], value=1.0, name="op"),
        ("int32[2]", "float32[]"),
        ["to [2,3]"],
        0,
        8 + 4 + F32 * 6,
    ),
    "unknown": (unknown, ("float32[...]", "float32[?,3]"), [], 0, 0),
    "given": (lambda: port(7, name="op"), ("float32[7]",), [], 0, F32 * 7),
    "constant": (
        lambda: tf.constant(np.ones((2, 2), np.float32), name="op"),
        ("float32[2,2]",),
        [],
        0,
        0,
    ),
    "updated": (
        updated,
        ("resource[]", "float32[]", "float32[4,5]"),
        ["use_locking=True"],
        0,
        F32 * (1 + 20 + 20),
    ),
    "converted": (
        lambda: tf.raw_ops.Cast(x=port(8), DstT=tf.float16, name="op"),
        ("float32[8]",),
        ["DstT=float16"],
        0,
        F32 * 8 + 2 * 8,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_time_of_an_op_depends_on(name: str) -> None:
    """Types and shapes of inputs, attributes that change the work, the shape of a result, and a fused op."""
    make, inputs, told, _, moved = CASES[name]
    with tf.Graph().as_default() as graph:
        make()
        ops = {each.name: record_of(each) for each in graph.get_operations()}
        op = ops["op"]
        signature, _, bytes_moved = cost_of(op, None, ops)
    assert (signature.type, signature.inputs) == (op.type, inputs)
    for each in told:
        assert each in signature.detail
    if not told:
        assert "to [" not in signature.detail
        assert "after" not in signature.detail
    assert bytes_moved == moved


@pytest.mark.parametrize("name", ["product", "transposed"])
def test_a_product_has_its_operations_whichever_way_it_is_written(name: str) -> None:
    """One multiplication and one addition for each pair of numbers."""
    make, _, _, operations, _ = CASES[name]
    with tf.Graph().as_default() as graph:
        make()
        op = graph.get_operation_by_name("op")
        assert cost_of(record_of(op))[1] == operations

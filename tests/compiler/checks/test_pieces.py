"""Axes of variables that are cut, checked without TensorFlow."""

from __future__ import annotations

import pytest

from compiler.checks import check_spec
from tests.support import spec_of

TEXT = """
tfdeploy = 1
model "net" {{
  x = input(int32, [4])
  label = input(int32, [])
  z = x -> Embedding(10, 4, name = "table") -> Flatten() -> Dense(2, name = "wide"{more})
  loss = [label, z] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = 4 }}
place {{ {rule} }}
update {{ optimizer = SGD(0.1) }}
"""


@pytest.mark.parametrize(
    ("rule", "more", "words"),
    [
        ('variables("table/*") -> sharded(cpu[*], axis = 2)', "", "`table/embeddings` has no axis 2"),
        ('variables("wide/*") -> sharded(cpu[*], axis = 1)', "", "`wide/bias` has no axis 1"),
        ("variables -> sharded(cpu[*], axis = 1)", "", "`wide/bias` has no axis 1"),
        ("variables -> sharded(cpu[*], axis = 1)", ", use_bias = false", None),
        ('variables("*/kernel") -> sharded(cpu[*], axis = 1)', "", None),
        ('variables("wide/*") -> sharded(cpu[*], axis = 1)\n variables("*/bias") -> cpu[0]', "", None),
        ('variables("table/*") -> sharded(cpu[*], axis = 1)', "", None),
    ],
)
def test_an_axis_that_is_not_there_is_found_by_check(rule: str, more: str, words: str | None) -> None:
    """At the axis; the last rule that matches decides; kernels are left to the compiler."""
    found = [each for each in check_spec(spec_of(TEXT.format(rule=rule, more=more))) if each.is_error]
    assert [each.message for each in found] == ([] if words is None else [words])
    for each in found:
        assert (each.code, each.span and each.span.text) == ("TFD547", rule.rpartition("= ")[2][0])

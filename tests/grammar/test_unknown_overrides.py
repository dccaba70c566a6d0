"""What a path of `--set` that leads nowhere may go on with."""

import pytest

import grammar
from dsl.diagnostics import SpecError
from tests.grammar.test_examples import EXAMPLES


def test_names_are_listed_once() -> None:
    """`loss` is a word of every model and the name of an item of this one, and is listed once."""
    with pytest.raises(SpecError) as caught:
        grammar.load(EXAMPLES / "digits.tfdeploy", [("model.hidden.units", "3")])
    (found,) = caught.value.diagnostics
    assert found.notes == (
        "it may continue with `logits`, `loss`, `regularize`, `output`, `image`, `digit` and `metrics`",
    )

"""The arguments of sources and transforms, by the tables of the language."""

from functools import partial

import pytest

from dsl import ir
from dsl.schema.data_functions import FEATURES, LENGTHS, SOURCES, TRANSFORMS
from tests.support import refusal_of
from tfdeploy.data import SOURCES as READ
from tfdeploy.data import TRANSFORMS as MADE
from tfdeploy.data.arguments import Field, bind


def test_every_function_of_the_language_is_there() -> None:
    """What a spec may call is what can be opened and made, and no name is in two tables."""
    assert READ.keys() == {each.name for each in SOURCES}
    assert MADE.keys() == {each.name for each in TRANSFORMS}
    names = [each.name for each in (*SOURCES, *TRANSFORMS, *FEATURES, *LENGTHS)]
    assert len(set(names)) == len(names)


def test_arguments_are_bound_by_place_and_by_name() -> None:
    """Defaults fill what is not given, and further names are kept apart."""
    found = bind(ir.Call("tfrecord", ("a.tfrecord",), {"x": 3}))
    assert (found.values, found.others) == ({"path": "a.tfrecord", "compression": "none"}, {"x": 3})
    crop = bind(ir.Call("random_crop", ("image", (4, 5)), {"fill": 7}))
    assert crop.values == {"name": "image", "size": (4, 5), "pad": 0, "fill": 7}
    assert (crop["fill"], crop.others) == (7, {})


def test_one_text_stands_for_a_list_of_one() -> None:
    """A list of none says nothing."""
    assert bind(ir.Call("pad", ("b",))).texts("name") == ("b",)
    assert bind(ir.Call("csv", ("a.csv",), {"x": ("b", "c")})).texts("x") == ("b", "c")
    for call, name in ((ir.Call("pad", ((),)), "name"), (ir.Call("csv", ("a.csv",), {"x": ()}), "x")):
        found = refusal_of(partial(bind(call).texts, name))
        assert found.message == f"`{call.name}` takes a string or a list of strings as `{name}`"


@pytest.mark.parametrize("size", [(), (3,), (1, 2, 3)])
def test_a_pair_is_a_height_and_a_width(size: tuple[int, ...]) -> None:
    """Neither more nor fewer numbers are one."""
    assert bind(ir.Call("center_crop", ("image", (3, 4)))).pair("size") == (3, 4)
    found = refusal_of(lambda: bind(ir.Call("center_crop", ("image", size))).pair("size"))
    assert found.message == "`center_crop` takes a height and a width as `size`"


def test_a_tensor_that_is_not_there_is_told_with_the_nearest() -> None:
    """Of the tensors that there are."""
    fields = {"image": Field("image", "uint8", (2,))}
    given = bind(ir.Call("take", (3,)))
    assert given.tensor("image", fields) == fields["image"]
    found = refusal_of(lambda: given.tensor("imag", fields))
    assert (found.code, found.help) == ("TFD720", "there is a tensor with a similar name: `image`")

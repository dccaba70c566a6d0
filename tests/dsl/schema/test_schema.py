"""The tables of the language agree with the records of the IR and with each other."""

from attrs import fields_dict

from dsl import schema
from dsl.schema import BLOCKS, FUNCTIONS, ROOT

OF_THEIR_OWN = {
    "model": {"name", "bindings", "metrics", "outputs", "tensor_terms"},
    "layer": {"name", "parameters", "bindings"},
    "devices": {"jobs"},
    "job": {"name", "least"},
    "place": {"rules"},
    "train": {"part_weights"},
    "expect": {"conditions"},
    "update": {"groups"},
}
"""Fields that are not attributes: they come from items of other kinds."""


def test_every_attribute_is_a_field_and_every_field_an_attribute() -> None:
    """A block of the schema has the attributes of its record, neither more nor less."""
    for block in BLOCKS.values():
        if block.record is not None:
            fields = set(fields_dict(block.record)) - {"span", "spans"}
            assert set(block.names) == fields - OF_THEIR_OWN.get(block.name, set()), block.name


def test_defaults_are_of_the_type_of_their_attribute() -> None:
    """A default that is a word is one of the words of its attribute, and a number is within its bounds."""
    for block in BLOCKS.values():
        for attribute in block.attributes:
            default = block.default(attribute.name)
            if attribute.type.words and default is not None:
                assert default in attribute.type.words
            if attribute.type.low is not None and isinstance(default, int):
                assert default >= attribute.type.low


def test_names_stand_once() -> None:
    """No block has an attribute twice, and no table a function or a function an argument."""
    for block in BLOCKS.values():
        assert len(set(block.names)) == len(block.names)
    for functions in FUNCTIONS.values():
        assert len({each.name for each in functions}) == len(functions)
        for function in functions:
            assert len({each.name for each in function.arguments}) == len(function.arguments)


def test_required_arguments_come_first() -> None:
    """By position, no argument that is needed comes after one that is not."""
    for functions in FUNCTIONS.values():
        for function in functions:
            needed = [each.required for each in function.positional]
            assert needed == sorted(needed, reverse=True), function.name


def test_everything_is_described() -> None:
    """Every block, attribute, function, argument, selector, target and measure says what it is."""
    described = [
        *BLOCKS.values(),
        *schema.SELECTORS,
        *schema.TARGETS,
        *schema.MEASURES,
        *schema.ROOT_ATTRIBUTES,
    ]
    described += [each for block in BLOCKS.values() for each in block.attributes]
    described += [each for functions in FUNCTIONS.values() for each in functions]
    described += [each for functions in FUNCTIONS.values() for one in functions for each in one.arguments]
    assert [each.name for each in described if not each.doc] == []


def test_blocks_at_the_top_and_within_others_are_all_there_are() -> None:
    """Every block stands at the top or within one that does."""
    inner = {name for block in BLOCKS.values() for name in block.inner}
    assert {*ROOT, *inner} == set(BLOCKS)

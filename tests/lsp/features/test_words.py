"""Completion, hover and signature help: what is offered and said at a place."""

from collections.abc import Callable

import pytest
from lsprotocol import types

from dsl import ir
from dsl.schema import BLOCKS, ROOT, Argument, Function, Type
from tests.folders import EXAMPLES
from tests.lsp.texts import SMALL, Opened, small
from tfdeploy.lsp import describe, slots
from tfdeploy.lsp.features import completion, hover
from tfdeploy.lsp.features.completion import SNIPPETS


def offered(opened: Opened, *, snippets: bool = True) -> dict[str, str]:
    """Return what is inserted for each thing that is offered."""
    found = completion.complete(opened.place, snippets=snippets)
    return {each.label: each.text_edit.new_text for each in found.items}  # type: ignore[union-attr]


def said(opened: Opened) -> str:
    """Return what is shown for the word at the place, or nothing."""
    found = hover.hover(opened.place)
    return "" if found is None else found.contents.value  # type: ignore[union-attr]


def test_an_empty_text_is_offered_every_block() -> None:
    """All blocks and the two attributes at the top, with snippets that can be filled in."""
    assert set(offered(Opened("|"))) == {*ROOT, "tfdeploy", "include"}
    assert set(offered(Opened(f"{SMALL}\n|"))) & set(ROOT) == {"layer", "expect"}


def test_devices_are_counted_by_numbers_and_constants() -> None:
    """A number that is written out or has a name is known, and that of an expression is not."""
    for written, number in (("4", 4), ("width", 8), ("2 * width", None)):
        opened = Opened(SMALL.replace("cpu = 4", f"cpu = {written}"))
        assert slots.devices_of(opened.trees, opened.names) == (slots.Devices(None, None, {"cpu": number}),)


@pytest.mark.parametrize("block", sorted(BLOCKS))
def test_a_block_is_offered_its_attributes(block: str) -> None:
    """Every attribute and inner block of every kind of block, those that it has already excepted."""
    found = offered(Opened(f"{block} {{\n  |\n}}"))
    assert {*BLOCKS[block].names, *BLOCKS[block].inner} <= set(found)
    assert SNIPPETS["output"] not in found.values()  # the output of a model is written as an attribute
    if BLOCKS[block].names:
        name = BLOCKS[block].names[0]
        assert name not in offered(Opened(f"{block} {{\n  {name} = 1\n  |\n}}"))


PLACES = {
    "mode = sync": (
        "mode = |",
        "batch_norm = |",
        "|",
        "average_slots = true\n  |",
        "aggregate = |",
        "mode = sync # |",
        "mo|de = sync",
        "pa|ck = 1MiB",
        "mode = sy|nc",
        "mode = sync # mo|de",
        'freeze = ["den|"]',
    ),
    "-> Dense(10)": (
        "-> |",
        "-> applications.Re|",
        "-> Dense(10, activation = |)",
        "-> Dense(10, kernel_initializer = He|)",
        "-> Dense(|)",
        "-> Dense(units = 10, |)",
        "-> De|nse(10)",
        "-> Dense(10, use_|bias = true)",
        "-> applications.Res|Net50()",
        "-> Dense(|10)",
        "-> Dense(10, |)",
        "-> Dense(10, use_bias = |)",
    ),
    "twice(units = width)": ("twice(|)", "twice(units = 2, |)", "twice(units = wid|th)", "twice(units = |)"),
    "image -> twice": ("| -> twice", "ops.|", "ops.abs(|)[:, 0]", "ops.a|bs(image) -> twice"),
    "-> twice(": ("-> tw|ice(",),
    "hidden -> Dense(10)": ("hidden -> repeat(2, |)", "hid|den -> Dense(10)"),
    "-> SparseCategoricalCrossentropy(from_logits = true)": ("-> |",),
    "from_logits = true": ("from_logits = |",),
    "-> SparseCategoricalAccuracy()": ("-> |",),
    "[digit, logits] -> SparseCategoricalAccuracy()": ("[digit, |] -> AUC()",),
    "synthetic(100,": ("|(100,", "syn|thetic(100,"),
    "-> scale(image, 0.5)": (
        "-> |",
        "-> scale(|, 0.5)",
        "-> sc|ale(image, 0.5)",
        "-> random_flip(image, direction = |)",
        "-> scale(image,\n  |",
        "-> scale(image, 0.5, 0, |)",
        "-> scale(image,  # |\n 0.5)",
        "-> unknown(|)",
    ),
    "  x = input()": ("  x = |",),
    "image = input(float32, [4])": ("image = |",),
    "-> cpu[*]": ("-> |", "-> cpu[|]", "-> bal|anced(cpu[*])"),
    "  clones -> cpu[*]": ("  |",),
    "variables -> cpu[0]": (
        "variables -> balanced(|)",
        "variables -> sharded(cpu[*], |)",
        "|",
        "vari|ables -> cpu[0]",
        "clones -> groups(cpu[*], size = |)",
        "ops(|) -> cpu[0]",
        'variables("den|") -> cpu[0]',
    ),
    "Adam(1e-3)": ("|", "Ad|am(1e-3)", "Adam(learning_rate = |)", "Adam(CosineDecay(1, |))"),
    "optimizer = Adam(1e-3)": ('optimizer {\n    "den|" -> Adam(1e-3)\n  }',),
    "cpu = 4": ("cpu = |",),
    'model "small"': ('model "sm|all"',),
    "place {": ("pl|ace {",),
    "  metrics {": ("  met|rics {",),
    "tfdeploy = 1": ("tfde|ploy = 1",),
    "steps = 10": (
        "checkpoint_ev|ery = 10s",
        "steps = 1|0",
        'weights {\n    "den|" -> "file"\n  }',
        'directory = "den|"',
    ),
}
"""Parts of the small spec, and what stands in place of each, with the place that is asked about."""

VARIABLES = ("dense/kernel", "block/dense/bias")
"""The variables of the last run."""

SHOWN = 60
"""How many of the things that are offered are listed."""


def test_what_is_told_at_chosen_places(golden: Callable[[str, str], None]) -> None:
    """What is offered, in its order, and inserted, if that is more; what the word means; the call around."""
    told = []
    for old, variants in PLACES.items():
        for new in variants:
            opened = small(old, new)
            told.append(f"=== {new}")
            items = completion.complete(opened.place, snippets=True, variables=lambda: VARIABLES).items
            order = [each.sort_text or "" for each in items]
            assert order == sorted(order)
            texts = [(each.label, each.text_edit.new_text) for each in items]  # type: ignore[union-attr]
            told += [label if label == text else f"{label}: {text}" for label, text in texts[:SHOWN]]
            told += [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
            told += [f"means: {' '.join(said(opened).split())[:240]}"] if said(opened) else []
            found = hover.signature_help(opened.place)
            if found is not None:
                (shown,) = found.signatures
                told.append(f"in: {shown.label}, argument {found.active_parameter}; {shown.documentation}")
                told += [f"  {each.label}: {each.documentation}" for each in shown.parameters or ()]
    golden("lsp/places.txt", "\n".join(told) + "\n")


def test_devices_of_jobs_and_of_the_machine_are_offered() -> None:
    """Of each job its own devices, and of as many as there are the ranges; none of a kind that has none."""
    text = SMALL.replace(
        "  cpu = 4\n",
        '  job "ps" {\n    hosts = ["a:1", "b:1"]\n    cpu = 1\n    gpu = 0\n  }\n'
        '  job "worker" {\n    tasks = 20\n    gpu = 2\n  }\n',
    )
    found = offered(Opened(text.replace("variables -> cpu[0]", "variables -> |")))
    devices = [each for each in found if "[" in each or each in {"ps", "worker"}]
    assert devices[:7] == [
        *(
            "ps[*].cpu[*]",
            "ps[*].cpu[0]",
            "ps",
            "worker[*].gpu[*]",
            "worker[*].gpu[0]",
            "worker[*].gpu[0..1]",
        ),
        "worker",
    ]
    assert found["ps"] == "ps[${1:*}]"
    for written, offers in (
        ("ps[|]", ["*", "0", "1", "0..1"]),
        ("worker[|]", ["*", *map(str, range(16)), "0..19"]),
        ("worker[0].gpu[|]", ["*", "0", "1", "0..1"]),
        ("ps[0].cpu[|]", ["*", "0"]),
    ):
        numbers = list(offered(Opened(text.replace("variables -> cpu[0]", f"variables -> {written}"))))
        assert [each for each in numbers if each[0] in "*0123456789"] == offers, written


def test_no_snippets_for_an_editor_that_knows_none() -> None:
    """Then names alone are inserted."""
    assert offered(small("-> Dense(10)", "-> |"), snippets=False)["Conv2D"] == "Conv2D"
    assert offered(small("-> Dense(10)", "-> |"))["Conv2D"] == "Conv2D(${1:filters}, ${2:kernel_size})"


def test_what_is_written_in_the_examples_would_have_been_offered() -> None:
    """For the words after `->` and `=` of all examples, the completion of the empty word has that word."""
    missing = []
    for spec in sorted(EXAMPLES.rglob("*.tfdeploy")):
        text = spec.read_text()
        opened = Opened(text)
        for at in range(len(text)):
            if text[at - 3 : at] == "-> " and text[at].isalpha() and "#" not in text[:at].rpartition("\n")[2]:
                word = "".join(_word(text, at))
                found = completion.complete(opened.at(at), snippets=False)
                if not any(each.label.partition("[")[0].rstrip(".") == word for each in found.items):
                    missing.append((spec.name, word))
    assert missing == []


def _word(text: str, at: int) -> str:
    end = at
    while text[end].isalnum() or text[end] == "_":
        end += 1
    return text[at:end]


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_what_is_said_of_a_block(name: str) -> None:
    """Its meaning, and what can stand in it, of which nothing is said if there is nothing."""
    block = BLOCKS[name]
    label = ' "name"' if block.label == "required" else ""
    lines = describe.block(block).split("\n\n")
    assert lines[0] == f"```tfdeploy\n{name}{label} {{ ... }}\n```"
    said_of = {line.split(":")[0]: line.rstrip(".").split(": ")[1] for line in lines[2:]}
    wanted = {"Attributes": block.names, "Inner blocks": block.inner}
    assert said_of == {
        kind: ", ".join(f"`{each}`" for each in names) for kind, names in wanted.items() if names
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(ir.Every(steps=0), "0"), (ir.Every(steps=20), "20"), (ir.Every(seconds=90.0), "90s"), (None, "none")],
)
def test_defaults_are_written_as_the_language_has_them(value: object, text: str) -> None:
    """A period is a number of steps, or a time with its unit."""
    assert describe.written(value) == text


def test_a_signature_has_defaults_and_says_if_more_can_follow() -> None:
    """What may be left out has its default; dots stand for further arguments."""
    required, other = (
        Argument("a", Type("int"), required=True),
        Argument("b", Type("str"), "text", default="x", required=False),
    )
    assert describe.signature(Function("f", (required, other))) == 'f(a, b = "x")'
    assert describe.signature(Function("f", (), repeating=True)) == "f(...)"
    assert describe.signature(Function("f", (), rest=Type("any"))) == "f(...)"
    word = Argument("c", Type("word", words=("one", "two"), optional=True))
    assert describe.argument(word, "f").endswith("One of `one`, `two` or `none`.")
    assert describe.argument(other, "f") == '```tfdeploy\nf(b = "x")\n```\n\nText.\n\nTakes a string.'
    assert describe.function(Function("f", (required, other), doc="is it so?")) == (
        '```tfdeploy\nf(a, b = "x")\n```\n\nIs it so?\n\n- `b`: text'
    )


def test_offers_are_described(golden: Callable[[str, str], None]) -> None:
    """Whatever is offered says what it is, once the editor asks."""
    told = []
    for category, name in (
        *(("transform", "scale"), ("source", "csv"), ("keras:optimizer", "Adam"), ("block", "clones")),
        *(("attribute:", "include"), ("attribute:update", "mode"), ("word:why it is so", "anything")),
        *(("keras:loss", "MeanSquaredError"), ("application", "applications.ResNet50"), ("layer", "repeat")),
        *(("layer", "Conv2D"), ("tensor", "ops.abs"), ("binding", "parameter"), ("selector", "ops")),
        *(("call:aggregation", "hierarchical"), ("target", "groups"), ("measure", "memory")),
    ):
        text = completion.described(category, name, {})
        assert text is not None, category
        told.append(f"=== {category} {name}\n{text}\n")
    golden("lsp/described.txt", "\n".join(told))
    for category in ("transform", "block", "attribute:", "attribute:update", "keras:loss", "word:"):
        assert completion.described(category, "unknown", {}) is None, category
    opened = small("-> Dense(10)", "-> |")
    item = types.CompletionItem("twice", data=["layer", "twice"])
    documentation = completion.resolve(item, opened.trees).documentation
    assert "a layer block of this spec" in documentation.value.lower()  # type: ignore[union-attr]
    for data in (None, ["layer"], "ab", ["layer", "unknown"]):
        assert completion.resolve(types.CompletionItem("x", data=data), opened.trees).documentation is None

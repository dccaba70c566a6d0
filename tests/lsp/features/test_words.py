"""Completion, hover and signature help: what is offered and said at a place."""

from __future__ import annotations

import pytest

from dsl.schema import BLOCKS, ROOT, function_names, signatures
from tests.folders import EXAMPLES
from tests.lsp.texts import SMALL, Opened, small
from tfdeploy.lsp.features import completion, hover
from tfdeploy.lsp.words import scope


def offered(opened: Opened, *, snippets: bool = True) -> dict[str, str]:
    """Return what is inserted for each thing that is offered."""
    found = completion.complete(opened.document, opened.trees, opened.names, opened.offset, snippets=snippets)
    return {each.label: each.text_edit.new_text for each in found.items}  # type: ignore[union-attr]


def said(opened: Opened) -> str:
    """Return what is shown for the word at the place, or nothing."""
    found = hover.hover(opened.document, opened.trees, opened.names, opened.offset)
    return "" if found is None else found.contents.value  # type: ignore[union-attr]


def test_an_empty_text_is_offered_every_block() -> None:
    """All blocks and the two attributes at the top, with snippets that can be filled in."""
    assert set(offered(Opened("|"))) == {*ROOT, "tfdeploy", "include"}
    assert set(offered(Opened(f"{SMALL}\n|"))) & set(ROOT) == {"layer", "expect"}


def test_devices_are_counted_by_numbers_and_constants() -> None:
    """A number that is written out or has a name is known, and that of an expression is not."""
    for written, number in (("4", 4), ("width", 8), ("2 * width", None)):
        opened = Opened(SMALL.replace("cpu = 4", f"cpu = {written}"))
        assert scope.devices_of(opened.trees, opened.names) == (scope.Devices(None, None, {"cpu": number}),)


@pytest.mark.parametrize("block", sorted(BLOCKS))
def test_a_block_is_offered_its_attributes(block: str) -> None:
    """Every attribute of every kind of block is offered in it, those that it has already excepted."""
    found = offered(Opened(f"{block} {{\n  |\n}}"))
    assert set(BLOCKS[block].names) <= set(found)
    if BLOCKS[block].names:
        name = BLOCKS[block].names[0]
        assert name not in offered(Opened(f"{block} {{\n  {name} = 1\n  |\n}}"))


@pytest.mark.parametrize(
    ("old", "new", "some"),
    [
        ("mode = sync", "mode = |", {"sync", "async", "local"}),
        ("mode = sync", "batch_norm = |", {"first", "mean", "synchronized"}),
        ("-> Dense(10)", "-> |", {"Dense", "twice", "repeat", "python", "applications."}),
        ("-> Dense(10)", "-> applications.Re|", {"applications.ResNet50"}),
        ("-> Dense(10)", "-> Dense(10, activation = |)", {"relu", "none", "width"}),
        ("-> Dense(10)", "-> Dense(10, kernel_initializer = He|)", {"HeNormal"}),
        ("-> Dense(10)", "-> Dense(|)", {"units =", "kernel_regularizer =", "width"}),
        ("twice(units = width)", "twice(|)", {"units =", "name ="}),
        ("image -> twice", "| -> twice", {"image", "digit", "logits", "input", "weight", "ops."}),
        ("image -> twice", "ops.|", {"ops.matmul"}),
        ("image -> twice", "ops.abs(|)[:, 0]", {"image", "digit"}),
        ("hidden -> Dense(10)", "hidden -> repeat(2, |)", {"Dense", "twice"}),
        ("-> SparseCategoricalCrossentropy(from_logits = true)", "-> |", {"MeanSquaredError"}),
        ("from_logits = true", "from_logits = |", {"true", "false"}),
        ("-> SparseCategoricalAccuracy()", "-> |", {"AUC"}),
        ("[digit, logits] -> SparseCategoricalAccuracy()", "[digit, |] -> AUC()", {"logits", "image"}),
        ("synthetic(100,", "|(100,", set(function_names("source"))),
        ("-> scale(image, 0.5)", "-> |", set(function_names("transform"))),
        ("-> scale(image, 0.5)", "-> scale(|, 0.5)", {"image", "digit", "name ="}),
        ("-> scale(image, 0.5)", "-> random_flip(image, direction = |)", {"horizontal", "vertical", "both"}),
        ("-> cpu[*]", "-> |", {"cpu[*]", "cpu[0]", "cpu[0..3]", "groups"}),
        ("variables -> cpu[0]", "variables -> balanced(|)", {"cpu[0..3]"}),
        ("variables -> cpu[0]", "variables -> sharded(cpu[*], |)", {"axis =", "min_size ="}),
        ("-> cpu[*]", "-> cpu[|]", {"*", "0", "3", "0..3"}),
        ("  clones -> cpu[*]", "  |", {"clones", "variables", "slots", "ops"}),
        ("Adam(1e-3)", "|", set(signatures.names("optimizer"))),
        ("Adam(1e-3)", "Adam(learning_rate = |)", {"CosineDecay", "width"}),
        ("cpu = 4", "cpu = |", {"width"}),
    ],
)
def test_what_fits_is_offered(old: str, new: str, some: set[str]) -> None:
    """At each kind of place that is offered which the language takes there."""
    found = offered(small(old, new))
    assert some <= set(found), sorted(found)


@pytest.mark.parametrize(
    ("old", "new", "none"),
    [
        ("-> cpu[*]", "-> |", {"gpu[*]", "cpu[0..4]"}),
        ("-> cpu[*]", "-> cpu[|]", {"4"}),
        ("image -> twice", "| -> twice", {"units", "x", "Dense"}),
        ("twice(units = width)", "twice(units = 2, |)", {"units ="}),
        ("mode = sync", "mode = sync # |", {"sync", "mode"}),
        ('model "small"', 'model "sm|all"', {"model"}),
    ],
)
def test_what_does_not_fit_is_not_offered(old: str, new: str, none: set[str]) -> None:
    """No device that is not declared, no name of another block, nothing in comments and strings."""
    assert not none & set(offered(small(old, new)))


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
                found = completion.complete(opened.document, opened.trees, opened.names, at, snippets=False)
                if not any(each.label.partition("[")[0].rstrip(".") == word for each in found.items):
                    missing.append((spec.name, word))
    assert missing == []


def _word(text: str, at: int) -> str:
    end = at
    while text[end].isalnum() or text[end] == "_":
        end += 1
    return text[at:end]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("mode = sync", "mo|de = sync", ["When gradients are applied.", "`sync`", "Default: `sync`"]),
        ("mode = sync", "pa|ck = 1MiB", ["size of the buckets", "`MiB`"]),
        ("-> Dense(10)", "-> De|nse(10)", ["Dense(units, activation = none", "densely-connected"]),
        ("-> Dense(10)", "-> Dense(10, use_|bias = true)", ["use_bias = true", "`true` or `false`"]),
        ("hidden -> Dense(10)", "hid|den -> Dense(10)", ["hidden = image -> twice", "Tensor of the model"]),
        ("twice(units = width)", "twice(units = wid|th)", ["width = 8", "Constant"]),
        ("-> twice(", "-> tw|ice(", ['layer "twice"', "Layer block"]),
        ("-> scale(", "-> sc|ale(", ["scale(name, factor, offset = 0)", "what it is multiplied by"]),
        ("place {", "pl|ace {", ["what is placed where"]),
        ("  variables ->", "  vari|ables ->", ["the variables of the model"]),
        ("optimizer = Adam", "optimizer = Ad|am", ["Adam(learning_rate = 0.001", "Optimizer"]),
    ],
)
def test_what_a_word_means(old: str, new: str, parts: list[str]) -> None:
    """Meaning, default and unit of an attribute; signature and first lines of a layer; a definition."""
    text = said(small(old, new))
    assert [part for part in parts if part.lower() not in text.lower()] == []


def test_nothing_is_said_of_comments_and_numbers() -> None:
    """Where there is no word of the language, nothing is shown."""
    assert said(small("mode = sync", "mode = sync # mo|de")) == ""
    assert said(small("steps = 10", "steps = 1|0")) == ""


@pytest.mark.parametrize(
    ("old", "new", "name", "active"),
    [
        ("-> Dense(10)", "-> Dense(|10)", "Dense", 0),
        ("-> Dense(10)", "-> Dense(10, |)", "Dense", 1),
        ("-> Dense(10)", "-> Dense(10, use_bias = |)", "Dense", 2),
        ("twice(units = width)", "twice(units = |)", "twice", 0),
        ("Adam(1e-3)", "Adam(CosineDecay(1, |))", "CosineDecay", 1),
        ("-> scale(image, 0.5)", "-> scale(image,\n  |", "scale", 1),
        ("variables -> cpu[0]", "clones -> groups(cpu[*], size = |)", "groups", 1),
    ],
)
def test_the_argument_of_the_call_around(old: str, new: str, name: str, active: int) -> None:
    """The innermost call is shown with the argument that the place is in, whatever is missing after it."""
    opened = small(old, new)
    found = hover.signature_help(opened.document, opened.trees, opened.offset)
    assert found is not None
    assert found.signatures[0].label.startswith(f"{name}(")
    assert found.active_parameter == active


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("variables -> cpu[0]", 'variables("den|") -> cpu[0]'),
        ("mode = sync", 'freeze = ["den|"]'),
        ("optimizer = Adam(1e-3)", 'optimizer {\n    "den|" -> Adam(1e-3)\n  }'),
        ("steps = 10", 'weights {\n    "den|" -> "file"\n  }'),
    ],
)
def test_globs_of_the_last_run(old: str, new: str) -> None:
    """Where names of variables are matched, those of the last run are offered, and globs of their scopes."""
    opened = small(old, new)
    found = completion.complete(
        opened.document,
        opened.trees,
        opened.names,
        opened.offset,
        snippets=True,
        variables=lambda: ("dense/kernel", "block/dense/bias"),
    )
    assert {each.label for each in found.items} == {
        "dense/*", "dense/kernel", "block/*", "block/dense/*", "block/dense/bias",
    }  # fmt: skip
    edit = found.items[0].text_edit
    assert edit is not None
    start, end = (opened.document.positions.offset(at) for at in (edit.range.start, edit.range.end))  # type: ignore[union-attr]
    assert opened.document.text[start:end] == "den"
    assert offered(small("steps = 10", 'directory = "den|"')) == {}


def test_offers_are_described() -> None:
    """Whatever is offered says what it is, once the editor asks."""
    for category, name, words in [
        ("transform", "scale", "what it is multiplied by"),
        ("source", "csv", "csv("),
        ("keras:optimizer", "Adam", "learning_rate"),
        ("block", "clones", "batch"),
    ]:
        text = completion.described(category, name, {})
        assert text is not None, category
        assert words in text
    assert completion.described("transform", "unknown", {}) is None

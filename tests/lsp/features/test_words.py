"""Completion, hover and signature help: what is offered and said at a place."""

from __future__ import annotations

import pytest
from lsprotocol import types

from dsl import ir
from dsl.schema import BLOCKS, ROOT, Argument, Function, Type, function_names, signatures
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


def test_what_is_inserted_can_be_filled_in() -> None:
    """Snippets have the arguments that must be given, and the defaults and words of attributes."""
    for old, new, label, text in (
        ("-> Dense(10)", "-> |", "Flatten", "Flatten($0)"),
        ("-> Dense(10)", "-> |", "twice", "twice($0)"),
        ("-> Dense(10)", "-> |", "repeat", "repeat(${1:2}, $0)"),
        ("-> Dense(10)", "-> |", "python", 'python("$0")'),
        ("mode = sync", "|", "mode", "mode = ${1|sync,async,local|}"),
        ("mode = sync", "|", "accumulate", "accumulate = ${1:1}"),
        ("mode = sync", "|", "freeze", "freeze = $0"),
        ("mode = sync", "average_slots = true\n  |", "mode", "mode = ${1|sync,async,local|}"),
        ("  x = input()", "  x = |", "input", "input()"),
        ("image = input(float32, [4])", "image = |", "input", "input(${1:dtype}, ${2:shape})"),
        ("mode = sync", "aggregate = |", "add_n", "add_n"),
        ("mode = sync", "aggregate = |", "shuffle", "shuffle($0)"),
        ("variables -> cpu[0]", "|", "variables", "variables -> $0"),
        ("variables -> cpu[0]", "|", "ops", 'ops("${1:*}") -> $0'),
        ("-> cpu[*]", "-> |", "balanced", "balanced(${1:cpu[*]})"),
        ("-> cpu[*]", "-> |", "groups", "groups(${1:cpu[*]}, size = ${2:2})"),
        ("-> cpu[*]", "-> |", "clones(clones)", None),
    ):
        assert offered(small(old, new)).get(label) == text, (new, label)


def test_what_is_needed_most_comes_first() -> None:
    """Arguments are before values, names of the spec before those of Keras; editors keep that order."""
    opened = small("-> Dense(10)", "-> |")
    found = completion.complete(opened.place, snippets=True).items
    assert [each.sort_text for each in found] == sorted(str(each.sort_text) for each in found)
    labels = [each.label for each in found]
    assert labels[0] == "twice"
    assert labels[-3:] == ["repeat", "python", "applications."]
    twice = found[0]
    assert (twice.detail, twice.data, twice.filter_text) == (
        "a layer block of this spec",
        ["layer", "twice"],
        "twice",
    )
    assert next(iter(offered(small("-> Dense(10)", "-> Dense(units = 10, |)")))) == "activation ="
    assert list(offered(small("from_logits = true", "from_logits = |")))[:2] == ["true", "false"]


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
        ("mode = sync", "mode = sy|nc", ["`mode = sync`: when gradients are applied."]),
        (
            "-> Dense(10)",
            "-> applications.Res|Net50()",
            ["ResNet50(include_top = true", "Instantiates the ResNet50"],
        ),
        ("image -> twice", "ops.a|bs(image) -> twice", ["abs(x)", "keras.ops.absolute"]),
        ("synthetic(100,", "syn|thetic(100,", ["synthetic(count"]),
        ("tfdeploy = 1", "tfde|ploy = 1", ["tfdeploy = ..."]),
        ("clones -> cpu[*]", "clones -> bal|anced(cpu[*])", ["balanced(set)"]),
        ("  metrics {", "  met|rics {", ["metrics { ... }"]),
        (
            "  steps = 10",
            "  checkpoint_ev|ery = 10s",
            ["checkpoint_every = ...", "a number of steps", "units: `us`"],
        ),
    ],
)
def test_what_a_word_means(old: str, new: str, parts: list[str]) -> None:
    """Meaning, default and unit of an attribute; signature and first lines of a layer; a definition."""
    text = said(small(old, new))
    assert [part for part in parts if part.lower() not in text.lower()] == []


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
        ("variables -> cpu[0]", "ops(|) -> cpu[0]", "ops", 0),
    ],
)
def test_the_argument_of_the_call_around(old: str, new: str, name: str, active: int) -> None:
    """The innermost call is shown with the argument that the place is in, whatever is missing after it."""
    opened = small(old, new)
    found = hover.signature_help(opened.place)
    assert found is not None
    assert found.signatures[0].label.startswith(f"{name}(")
    assert len(found.signatures[0].parameters or ()) > 1 or name in {"twice", "ops"}
    assert found.active_parameter == active


def test_a_call_is_shown_with_what_it_does() -> None:
    """Beside its arguments; beyond the last that there is, none is marked; comments have no call."""
    opened = small("-> scale(image, 0.5)", "-> scale(image, 0.5, 0, |)")
    found = hover.signature_help(opened.place)
    assert found is not None
    (shown,) = found.signatures
    assert isinstance(shown.documentation, str)
    assert "factor" in shown.documentation
    assert [each.label for each in shown.parameters or ()] == ["name", "factor", "offset = 0"]
    assert found.active_parameter == len(shown.parameters or ())
    opened = small("twice(units = width)", "twice(|)")
    found = hover.signature_help(opened.place)
    assert found is not None
    assert [each.documentation for each in found.signatures[0].parameters or ()][:2] == [
        "a whole number or `none`",
        "the name of the layer",
    ]
    for old, new in (
        ("-> scale(image, 0.5)", "-> scale(image,  # |\n 0.5)"),
        ("mode = sync", "mode = |"),
        ("-> scale(image, 0.5)", "-> unknown(|)"),
    ):
        opened = small(old, new)
        assert hover.signature_help(opened.place) is None, new


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
        opened.place,
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
        ("attribute:", "include", "include = ..."),
        ("attribute:update", "mode", "When gradients are applied."),
        ("word:why it is so", "anything", "why it is so"),
        ("keras:loss", "MeanSquaredError", "MeanSquaredError("),
        ("application", "applications.ResNet50", "Instantiates the ResNet50"),
        ("layer", "repeat", "repeat("),
        ("layer", "Conv2D", "2D convolution layer"),
        ("tensor", "ops.abs", "keras.ops.absolute"),
        ("binding", "parameter", "parameter("),
        ("call:aggregation", "hierarchical", "hierarchical("),
        ("selector", "ops", "ops("),
        ("target", "groups", "groups(set, size)"),
        ("measure", "memory", "memory("),
    ]:
        text = completion.described(category, name, {})
        assert text is not None, category
        assert words in text
    for category in ("transform", "block", "attribute:", "attribute:update", "keras:loss", "word:"):
        assert completion.described(category, "unknown", {}) is None, category
    opened = small("-> Dense(10)", "-> |")
    item = types.CompletionItem("twice", data=["layer", "twice"])
    documentation = completion.resolve(item, opened.trees).documentation
    assert "a layer block of this spec" in documentation.value.lower()  # type: ignore[union-attr]
    for data in (None, ["layer"], "ab", ["layer", "unknown"]):
        assert completion.resolve(types.CompletionItem("x", data=data), opened.trees).documentation is None

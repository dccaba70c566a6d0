"""The table of Keras signatures, against itself and against the installed Keras."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dsl.schema import types as kinds
from dsl.schema.signatures import CATEGORIES, find, names, words
from dsl.schema.types import Argument, Function, Type
from dsl.source import Source, Span
from grammar.lower.context import BAD, Context
from grammar.lower.evaluate import ValuePlace, fitted
from grammar.reports import Reports
from tests.folders import ROOT


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """The script that makes the table, as a module."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("make_signatures")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def made(maker: ModuleType) -> str:
    """The text of the table, made anew."""
    text: str = maker.text()
    return text


@pytest.mark.full
@pytest.mark.slow
def test_committed_table_is_that_of_the_installed_keras(maker: ModuleType, made: str) -> None:
    """Making the table again gives the committed file, byte by byte."""
    assert maker.TABLE.read_text(encoding="utf-8") == made


@pytest.mark.full
@pytest.mark.slow
def test_check_names_the_script_when_the_table_is_stale(
    maker: ModuleType,
    made: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With `--check` a table that differs is an error that says what to run."""
    stale = tmp_path / "keras_signatures.json"
    stale.write_text("{}\n")
    monkeypatch.setattr(maker, "TABLE", stale)
    monkeypatch.setattr(maker, "text", lambda: made)
    assert maker.main(["--check"]) == 1
    assert capsys.readouterr().err.endswith("run make_signatures.py\n")
    assert stale.read_text() == "{}\n"


@pytest.mark.parametrize(
    "category",
    [pytest.param("layer", marks=pytest.mark.full), "loss", "metric", "initializer", "regularizer"],
)
def test_keras_takes_every_word_of_the_table(maker: ModuleType, category: str) -> None:
    """Each word that the table allows for an argument is one with which Keras makes the object."""
    module, _ = maker.MODULES[category]
    made = 0
    for name in names(category):
        signature = find(category, name)
        owner = getattr(module, name)
        required = {each.name: _sample(maker, owner, each) for each in signature.arguments if each.required}
        for argument in signature.arguments:
            if argument.type.kind == "word" and not {"string", "data.train"} & {*argument.type.words}:
                for word in argument.type.words:
                    owner(**{**required, **_company(name, argument.name, word), argument.name: word})
                    made += 1
    assert made > 0


def _sample(maker: ModuleType, owner: type, argument: Argument) -> Any:
    kind = f"{_kind(argument)}:{argument.category}" if argument.category else _kind(argument)
    return maker.sample(owner, [argument.name, kind])


def _kind(argument: Argument) -> str:
    """Return the kind of an argument as the table of Keras's signatures names it."""
    first = next(iter(argument.type.options), argument.type)
    lists = {"int": "ints", "str": "strings"}
    return lists[first.item.kind] if first.item is not None else {"keras": "call"}.get(first.kind, first.kind)


def _company(name: str, argument: str, word: str) -> dict[str, Any]:
    """Return what Keras wants besides `word`, which it does not take alone."""
    if argument == "bounding_box_format":
        return {}
    if argument == "output_mode" and word == "tf_idf" and name.endswith("Lookup"):
        vocabulary = ["a"] if name == "StringLookup" else [1]
        return {"vocabulary": vocabulary, "idf_weights": [0.5]}
    if argument == "oov_method":
        return {"num_oov_indices": 2}
    if name == "Discretization":
        return {"num_bins": 4}
    return {}


TRIED: dict[str, tuple[Any, ...]] = {
    "int": (-2, -1, 0, 1, 2),
    "float": (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5),
    "shape": (-2, -1, 0, 1, 2, (1,), (1, 1), (1, 1, 1), (-1, 1), (0, 0)),
    "ints": (1, (1, 2), (2, 1)),
}
"""Values to make objects with, for each kind of argument."""

DEPENDS = {
    "AUC.num_labels",
    "CategoryEncoding.num_tokens",
    "Cropping1D.cropping",
    "F1Score.threshold",
    "FBetaScore.threshold",
    "GroupNormalization.groups",
    "GroupQueryAttention.num_query_heads",
    "Permute.dims",
    "RandomGaussianBlur.kernel_size",
    "STFTSpectrogram.fft_length",
    "STFTSpectrogram.frame_length",
    "STFTSpectrogram.frame_step",
    *(f"{name}.target_class_ids" for name in ("BinaryIoU", "IoU", "OneHotIoU")),
    *(f"Conv{at}DTranspose.output_padding" for at in (1, 2, 3)),
    *(f"{name}.noise_shape" for name in ("AlphaDropout", "Dropout")),
}
"""Arguments of which what Keras takes depends on others, or is no range."""


@pytest.mark.parametrize(
    "category",
    [pytest.param("layer", marks=pytest.mark.full), "loss", "metric", "optimizer", "schedule", "regularizer"],
)
def test_numbers_that_keras_refuses_are_refused_and_others_only_by_the_table(
    maker: ModuleType, category: str
) -> None:
    """An object is made with each of some values: Keras and the language agree on all of them."""
    tables = importlib.import_module("kinds")
    compared, wrong = 0, []
    for name in names(category):
        signature = find(category, name)
        if signature.name != name or name == "Momentum":
            continue
        schedules, optimizers = maker.keras.optimizers.schedules, maker.keras.optimizers
        home = {"schedule": schedules, "optimizer": optimizers}.get(category)
        owner = getattr(home or maker.MODULES[category][0], name)
        required = {each.name: _sample(maker, owner, each) for each in signature.arguments if each.required}
        if not _makes(owner, required):
            continue
        for argument in signature.arguments:
            key = f"{name}.{argument.name}"
            if key in DEPENDS or argument.name in {"lazy", "exclude_from_weight_decay"}:
                continue
            for value in TRIED.get(_kind(argument), ()):
                theirs = _makes(owner, {**required, argument.name: value})
                ours = _is_taken(argument, value)
                by_table = key in tables.RANGES or argument.name in tables.RANGES
                if ours != theirs and not (theirs and by_table):
                    wrong.append((key, value, theirs))
                compared += 1
    assert compared > 0
    assert wrong == []


def _makes(owner: Any, given: dict[str, Any]) -> bool:
    try:
        owner(**given)
    except Exception:  # noqa: BLE001 Keras raises errors of every kind
        return False
    return True


def _is_taken(argument: Argument, value: Any) -> bool:
    type_ = next(iter(argument.type.options), argument.type)
    place = ValuePlace(type_, "it", Span(Source("a", ""), 0, 0), (), Context(Reports()))
    return fitted(value, place) is not BAD


def test_signature_of_a_layer_is_whole() -> None:
    """A layer has its own arguments by position and those of every layer by keyword."""
    regularizer = kinds.keras("regularizer", words("regularizer"), optional=True)
    assert find("layer", "Dropout") == Function(
        "Dropout",
        (
            Argument("rate", kinds.number(0.0, 1.0), required=True),
            Argument("noise_shape", Type("shape", optional=True)),
            Argument("seed", kinds.integer(optional=True)),
            Argument("activity_regularizer", regularizer, positional=False),
            Argument("trainable", kinds.boolean(), default=True, positional=False),
            Argument("dtype", kinds.word(*words("dtype"), optional=True), positional=False),
            Argument("name", Type("str", optional=True), positional=False),
        ),
    )


def test_layer_that_learns_takes_the_split_to_learn_from() -> None:
    """What a layer learns from is an argument that Keras does not have."""
    found = find("layer", "Normalization")
    assert found.arguments[-1].name == "adapt"
    assert found.arguments[-1].type.words == ("data.train", "data.validation", "data.test")


def test_words_belong_to_the_class() -> None:
    """Only a one-dimensional convolution can be padded causally."""
    wide, narrow = find("layer", "Conv2D"), find("layer", "Conv1D")
    assert wide.argument("padding") == Argument("padding", kinds.word("same", "valid"), default="valid")
    causal = kinds.word("causal", "same", "valid")
    assert narrow.argument("padding") == Argument("padding", causal, default="valid")
    assert wide.argument("kernel") is None


def test_alias_is_what_it_stands_for() -> None:
    """Keras's second names are found, and lead to the first."""
    assert find("layer", "Convolution2D") == find("layer", "Conv2D")
    assert find("initializer", "he_normal") == find("initializer", "HeNormal")
    assert "Convolution2D" in names("layer")


def test_unknown_name_is_none() -> None:
    """What Keras does not have, and what a spec cannot give, is not there."""
    assert find("layer", "Conv9D") is None
    assert find("layer", "Lambda") is None
    assert find("metric", "Mean") is None


def test_optimizers_are_those_of_the_language() -> None:
    """Momentum is SGD with momentum, and what the update block says is no argument of theirs."""
    assert names("optimizer") == (
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "Ftrl",
        "Lamb",
        "Lion",
        "Momentum",
        "Muon",
        "Nadam",
        "RMSprop",
        "SGD",
    )
    momentum, sgd, adam = (find("optimizer", name) for name in ("Momentum", "SGD", "Adam"))
    assert [each.name for each in adam.arguments] == [
        "learning_rate",
        "beta_1",
        "beta_2",
        "epsilon",
        "amsgrad",
        "weight_decay",
        "name",
        "exclude_from_weight_decay",
        "lazy",
    ]
    assert [each.name for each in adam.positional] == [each.name for each in adam.arguments][:-3]
    rate = adam.arguments[0]
    assert (rate.takes_numbers, rate.category) == (True, "schedule")
    at = [each.name for each in sgd.arguments].index("momentum")
    assert (sgd.arguments[at].default, momentum.arguments[at].default) == (0.0, 0.9)
    assert (
        momentum.arguments[:at] + momentum.arguments[at + 1 :] == sgd.arguments[:at] + sgd.arguments[at + 1 :]
    )


def test_every_default_fits_its_kind() -> None:
    """No default of the table breaks the rule that the table states for it."""
    checked = 0
    for category in CATEGORIES:
        for name in names(category):
            signature = find(category, name)
            for each in signature.arguments:
                checked += 1
                assert each.required or _fits(each), (category, name, each)
            order = [each.positional for each in signature.arguments]
            assert order == sorted(order, reverse=True)
    assert checked > 2000


def _fits(each: Argument) -> bool:
    value = each.default
    if value is None:
        return each.type.optional
    if each.type.words and isinstance(value, str):
        return value in each.type.words
    types: dict[str, Any] = {
        "int": int,
        "float": int | float,
        "bool": bool,
        "str": str,
        "shape": int | tuple,
        "ints": tuple,
        "any": object,
    }
    return isinstance(value, types[_kind(each)])

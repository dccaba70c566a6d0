"""The models of `examples/zoo` train and predict as the same models in plain Keras do."""

import re
from typing import Any

import numpy as np
import pytest

import grammar
from compiler.graph.storage.export import keras_model
from compiler.graph.tower.network.keras_scope import own_names
from compiler.model.elaborate import elaborate
from dsl.source import Source
from grammar.format import format_text
from tests.folders import ROOT
from tests.support import Training
from tests.zoo import sequences, tables, vision
from tests.zoo.twin import Maker, Twin, predictions
from tfdeploy.runtime.verify.examples import read_examples

FOLDER = ROOT / "examples/zoo"
SPECS = sorted(FOLDER.glob("*.tfdeploy"))
ROOMS = (vision, sequences, tables)
RATE = 0.1
STILL = {"let.rate": "0", "let.noise": "0.0"}  # a spec and its twin draw other random numbers


def twin_of(name: str) -> Twin:
    """Return the Keras model of an example, with names that do not depend on what was made before."""
    maker: Maker = next(vars(room)[name] for room in ROOMS if name in vars(room))
    with own_names():
        return maker()


def _require_equal(found: Any, expected: Any, what: str) -> None:
    """Fail if arrays differ by more than 1e-5 of the largest element, or of 0.1 if all are small."""
    scale = max(float(np.max(np.abs(expected))), 0.1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale, err_msg=what)


def check(name: str) -> None:
    """Compare one step on two clones, and the predictions after it, with plain Keras."""
    path = FOLDER / f"{name}.tfdeploy"
    text = path.read_text()
    still = [(key, value) for key, value in STILL.items() if f"\n  {key.removeprefix('let.')} = " in text]
    spec = grammar.load(path, [("update.optimizer", f"SGD({RATE})"), *still])
    assert spec.clones.count == 2
    arrays = read_examples(spec, elaborate(spec), 2 * spec.clones.batch, seed=0)
    twin = twin_of(name)
    with Training(spec, arrays, adapt=True) as training:
        before = training.values()
        weights = twin.variables()
        paths = {each: each.replace("/", "_") for each in before if each != "global_step"}
        found = {path.replace("/", "_"): each for path, each in weights.items()}
        assert found.keys() == set(paths.values())
        for key, path in paths.items():
            found[path].assign(before[key])
        (loss,) = training.steps(1)
        after = training.values()
        exported = keras_model(training.compiled, {key: after[key] for key in training.compiled.weights})
    assert twin.train_on_batch(arrays, RATE) == pytest.approx(loss, rel=1e-5)
    for key, path in paths.items():
        _require_equal(after[key], found[path].numpy(), key)
        assert not key.startswith(twin.frozen) or np.array_equal(after[key], before[key]), key
    ours, theirs = predictions(exported, arrays), twin.predict(arrays)
    assert type(ours) is type(theirs)
    for key in ours if isinstance(ours, dict) else [...]:
        _require_equal(ours[key], theirs[key], f"predictions {key}")


NAMES = [each.stem for each in SPECS]
ALWAYS = ("autoencoder",)
"""Small models of different kinds, for `make test`."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in ALWAYS else pytest.mark.full) for each in NAMES],
)
def test_the_zoo_is_keras_step_for_step(name: str) -> None:
    """Weights, losses and predictions of a step."""
    check(name)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_model_of_the_zoo_is_without_a_word_of_complaint(path: Any) -> None:
    """No error, no warning, nothing for the formatter to do, and a few lines that say what it is."""
    assert list(grammar.read(path).diagnostics) == []
    text = path.read_text()
    assert format_text(Source(str(path), text)) == text
    assert text.startswith("# ")


def test_the_lists_name_every_model_of_the_zoo() -> None:
    """The file beside the models, and the page of the documentation."""
    named = re.compile(r"^(?:- \[|\| )`(\w+)`", re.MULTILINE)
    for path in (FOLDER / "README.md", ROOT / "docs/zoo.md"):
        assert sorted(named.findall(path.read_text())) == NAMES

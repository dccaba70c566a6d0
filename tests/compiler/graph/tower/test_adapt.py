"""What layers learn from data: which tensors they learn from, and batch by batch the numbers of the whole."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from attrs import define

from compiler.graph.tower.adapt import Adaptation
from compiler.model.elaborate import elaborate
from dsl.diagnostics import SpecError
from tests.support import refusal_of, spec_of

SPEC = """
tfdeploy = 1
model "m" {{
  text = input(string, [])
  size = input(float32, [2])
  other = input(float32, [2])
  y = input(float32, [1])
  scaled = size -> Rescaling(2.0, offset = -1.0)
  away = other -> Rescaling(3.0)
  {learns}
  z = [scaled, away] -> Concatenate() -> Dense(1)
  loss = [y, z] -> MeanSquaredError()
}}
data {{ train = synthetic(8, text = feature(string, []), size = feature(float32, [2]),
  other = feature(float32, [2]), y = feature(float32, [1])) }}
update {{ optimizer = SGD(0.1) }}
"""
NUMBERS = np.array([[1, 10], [2, 20], [4, 80], [7, 20], [3, -5]], np.float32)
WORDS = [b"egg", b"ham", b"tea", b"egg", b"tea", b"ham", b"egg", b"bun"]


def adaptation(learns: str, name: str = "own") -> Adaptation:
    """Return how the layer called `own` learns."""
    model = elaborate(spec_of(SPEC.format(learns=learns)))
    return Adaptation.of(model, next(each for each in model.layers if each.path == name), ".")


@define
class Fed:
    """Runs tensors on examples, a few at a time."""

    examples: dict[str, Any]
    placeholders: dict[str, Any]
    step: int

    def __call__(self, wanted: Any) -> Any:
        """Yield the values of tensors, batch after batch."""
        count = len(next(iter(self.examples.values())))
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.tables_initializer())
            for at in range(0, count, self.step):
                names = self.examples
                yield session.run(
                    wanted, {self.placeholders[each]: names[each][at : at + self.step] for each in names}
                )


def learnt(learns: str, step: int = 3, **examples: Any) -> dict[str, Any]:
    """Return what the layer called `own` learns from examples, `step` of them at a time."""
    found = adaptation(learns)
    with tf.Graph().as_default():
        made = {each.name: tf.compat.v1.placeholder(each.dtype, (None, *each.shape)) for each in found.inputs}
        return dict(found.learn(made, Fed(examples, made, step)))


def refused(learns: str, **examples: Any) -> SpecError:
    """Return the error with which a layer cannot learn."""
    with pytest.raises(SpecError) as caught:
        learnt(learns, **examples)
    return caught.value


def test_a_layer_learns_from_what_reaches_it() -> None:
    """The layers before it, in their order, and the inputs that these need; others have no part in it."""
    found = adaptation('n = scaled -> UnitNormalization() -> Normalization(name = "own", adapt = data.train)')
    kinds = [found.model.layers[each.layer].call.name for each in found.before]
    assert kinds == ["Rescaling", "UnitNormalization"]
    assert [each.name for each in found.inputs] == ["size"]
    assert found.split == "train"
    both = adaptation(
        'n = [away, scaled] -> Concatenate() -> Normalization(name = "own", adapt = data.train)'
    )
    assert [each.name for each in both.inputs] == ["size", "other"]
    assert len(both.before) == 3


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_means_are_those_of_all_examples(step: int) -> None:
    """However many examples a batch has, also if the last one has fewer."""
    found = learnt('n = scaled -> Normalization(name = "own", adapt = data.train)', step, size=NUMBERS)
    scaled = NUMBERS * 2 - 1
    np.testing.assert_allclose(found["mean"], scaled.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found["variance"], scaled.var(0), rtol=1e-6)


def test_nothing_is_dropped_before_a_layer_that_learns() -> None:
    """The layers before it are called as they are for predictions."""
    flow = 'n = scaled -> Dropout(0.9) -> Normalization(name = "own", adapt = data.train)'
    np.testing.assert_allclose(learnt(flow, size=NUMBERS)["mean"], (NUMBERS * 2 - 1).mean(0), rtol=1e-6)


@pytest.mark.parametrize(
    ("learns", "said"),
    [
        (
            'own = layer(Normalization(name = "own", adapt = data.train)), n = size -> own, m = away -> own',
            "it is used 2 times",
        ),
        ('n = [size, size] -> Normalization(name = "own", adapt = data.train)', "it gets several tensors"),
    ],
)
def test_a_layer_learns_from_one_tensor(learns: str, said: str) -> None:
    """Of two, nobody knows which is meant."""
    found = refusal_of(lambda: adaptation(learns))
    assert found.code == "TFD369"
    assert said in f"{found.message} {found.text} {' '.join(found.notes)}"


@pytest.mark.parametrize(("axis", "kept"), [("-1", (0,)), ("1", (0,)), ("none", (0, 1))])
def test_means_are_along_the_other_axes(axis: str, kept: tuple[int, ...]) -> None:
    """A number for each feature, or one for all."""
    found = learnt(
        f'n = size -> Normalization(name = "own", axis = {axis}, adapt = data.train)', size=NUMBERS
    )
    layer = keras.layers.Normalization(axis=None if axis == "none" else int(axis))
    layer.adapt(NUMBERS)
    np.testing.assert_allclose(np.ravel(found["mean"]), np.ravel(NUMBERS.mean(kept)), rtol=1e-6)
    np.testing.assert_allclose(np.ravel(found["variance"]), np.ravel(NUMBERS.var(kept)), rtol=1e-6)
    np.testing.assert_allclose(np.ravel(found["mean"]), np.ravel(layer.mean), rtol=1e-5)


LOOKUP = 'n = text -> StringLookup(name = "own"{more}, adapt = data.train)'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", ("egg", "tea", "ham", "bun")),
        (", max_tokens = 3", ("egg", "tea")),
        (', max_tokens = 4, mask_token = "tea"', ("egg", "ham")),
        (', oov_token = "ham"', ("egg", "tea", "bun")),
        (", num_oov_indices = 2, max_tokens = 4", ("egg", "tea")),
    ],
)
def test_the_most_frequent_words_are_learnt(more: str, words: tuple[str, ...]) -> None:
    """Of equally frequent ones the last, as Keras has it; special words take places and are not learnt."""
    found = learnt(LOOKUP.format(more=more), text=np.array(WORDS, object))
    assert found == {"vocabulary": words}


def test_words_of_documents_are_weighed() -> None:
    """By in how many documents they are, however often in each; both kinds of batches have this meaning."""
    texts = np.array([b"egg egg ham", b"egg tea", b"ham", b"", b"tea tea tea"], object)
    flow = 'n = text -> TextVectorization(name = "own", output_mode = "tf_idf"{more}, adapt = data.train)'
    counts = {"egg": (3, 2), "tea": (4, 2), "ham": (2, 2)}
    found = learnt(flow.format(more=""), 2, text=texts)
    assert found["vocabulary"] == tuple(sorted(counts, key=lambda each: (counts[each], each), reverse=True))
    expected = [np.log(1 + len(texts) / (1 + counts[each][1])) for each in found["vocabulary"]]
    np.testing.assert_allclose(found["idf_weights"], expected, rtol=1e-6)


def test_what_nothing_can_be_learnt_from_is_said() -> None:
    """With the reason, at the layer."""
    infinite = NUMBERS.copy()
    infinite[1, 0] = np.inf
    normal = 'n = size -> Normalization(name = "own", adapt = data.train)'
    bins = 'n = size -> Discretization(name = "own", num_bins = 3, adapt = data.train)'
    cases = [
        (refused(normal, size=infinite), "there are numbers among its examples that are not finite"),
        (refused(bins, size=infinite[:0]), "its examples have no quantiles"),
        (refused(LOOKUP.format(more=""), text=np.array([b"\xff"], object)), "that is not UTF-8"),
        (refused(LOOKUP.format(more=""), text=np.array([], object)), "there are no words in its examples"),
    ]
    for error, said in cases:
        (found,) = error.diagnostics
        assert said in f"{found.message} {found.text} {' '.join(found.notes)}", found
        assert found.span is not None


def test_no_weights_are_before_a_layer_that_learns() -> None:
    """They change while the model trains; the layer that has them is named."""
    flow = 'n = size -> Dense(3, name = "wide") -> Normalization(name = "own", adapt = data.train)'
    (found,) = refused(flow, size=NUMBERS).diagnostics
    assert found.code == "TFD583"
    assert "`wide`" in f"{found.message} {found.text} {' '.join(found.notes)}"

"""Files of predictions: of all types, and of batches of different sizes."""

from __future__ import annotations

import csv
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tfdeploy.runtime.trained.predict import PredictionFile

SHAPES = {"tag": (None, 2), "guess": ()}
BATCHES = (
    {"tag": np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2), "guess": np.array([7])},
    {"tag": np.arange(1, 7, dtype=np.float32).reshape(1, 3, 2), "guess": np.array([8])},
)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_shorter_batches_are_filled_with_zeros(kind: str, tmp_path: Path) -> None:
    """Every example has the columns, or the shape, of the longest batch, which may come last."""
    path = tmp_path / f"p.{kind}"
    with PredictionFile.open(path, SHAPES) as written:
        for batch in BATCHES:
            written.add(batch)
    assert written.count == 2
    expected = [[[1, 2], [3, 4], [0, 0]], [[1, 2], [3, 4], [5, 6]]]
    if kind == "npz":
        with np.load(path) as found:
            assert found["tag"].tolist() == expected
            assert found["guess"].tolist() == [7, 8]
    else:
        assert path.read_text().splitlines() == [
            "tag_0_0,tag_0_1,tag_1_0,tag_1_1,tag_2_0,tag_2_1,guess",
            "1,2,3,4,0,0,7",
            "1,2,3,4,5,6,8",
        ]


def test_no_example_of_any_size(tmp_path: Path) -> None:
    """Without an example, the sizes are not known, and the table is empty."""
    path = tmp_path / "p.csv"
    with PredictionFile.open(path, SHAPES):
        pass
    assert path.read_bytes() == b""


WORDS = ("a b", "", 'd, "e"', "ü\nx")


def test_all_types_can_be_written(tmp_path: Path) -> None:
    """Texts are texts, whole numbers and truth values exact, and bfloat16 is float32, in both files."""
    outputs = {
        "word": np.array([each.encode() for each in WORDS], object).reshape(2, 2),
        "file": np.array([True, False]),
        "large": np.array([2**62 + 1, -1], np.int64),
        "short": np.array([1.5, -0.25], ml_dtypes.bfloat16),
        "long": np.array([1 / 3, 1e-300]),
    }
    shapes = {name: each.shape[1:] for name, each in outputs.items()}
    for kind in ("csv", "npz"):
        with PredictionFile.open(tmp_path / f"p.{kind}", shapes) as written:
            written.add(outputs)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as found:
        assert found["word"].tolist() == [[*WORDS[:2]], [*WORDS[2:]]]
        assert found["short"].dtype == np.float32
        assert found["short"].tolist() == [1.5, -0.25]
        for name in ("file", "large", "long"):
            assert found[name].dtype == outputs[name].dtype
            assert found[name].tolist() == outputs[name].tolist()
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["word_0", "word_1", "file", "large", "short", "long"]
    assert rows[0] == [*WORDS[:2], "1", str(2**62 + 1), "1.5", "0.33333333333333331"]
    assert rows[1][:-1] == [*WORDS[2:], "0", "-1", "-0.25"]
    assert float(rows[1][-1]) == 1e-300


def test_texts_of_batches_of_any_size(tmp_path: Path) -> None:
    """Behind shorter batches are empty texts."""
    batches = [np.array([[b"a"]], object), np.array([[b"bcd", b"e"]], object)]
    for kind in ("csv", "npz"):
        with PredictionFile.open(tmp_path / f"p.{kind}", {"word": (None,)}) as written:
            for each in batches:
                written.add({"word": each})
    with np.load(tmp_path / "p.npz", allow_pickle=False) as found:
        assert found["word"].tolist() == [["a", ""], ["bcd", "e"]]
    assert (tmp_path / "p.csv").read_text().splitlines() == ["word_0,word_1", "a,", "bcd,e"]

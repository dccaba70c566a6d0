"""Files of predictions whose batches have different sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdeploy.runtime.trained.prediction_files import PredictionFile

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

"""What a run says of an example that it cannot use, wherever the example is: its file and its place there."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfdeploy
from dsl.diagnostics import Diagnostic, RunError
from tests.data.sources.test_images import jpeg
from tests.data.sources.test_tfrecord import example, record

SPEC = """
tfdeploy = 1
model "m" {
  x = input(float32, [SHAPE])
  label = input(int32, [])
  y = x -> Flatten() -> Dense(2)
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}
data { train = TRAIN }
devices { cpu = 2 }
clones { batch = 2 }
update { optimizer = SGD(0.0001) }
train { epochs = 2, seed = 1 }
"""


def fault_of(spec: str, folder: Path) -> Diagnostic:
    """Return how a run of a spec in a folder ends."""
    (folder / "s.tfdeploy").write_text(spec)
    loaded = tfdeploy.load(folder / "s.tfdeploy", {"train.directory": str(folder / "run")})
    with pytest.raises(RunError) as caught:
        tfdeploy.run(loaded)
    return caught.value.diagnostic


def written_images(folder: Path, bad: int, data: bytes) -> Path:
    """Write twelve images of two classes, of which one is `data`; return the path of that one."""
    for number in range(12):
        path = folder / "pets" / "ab"[number // 6] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if number == bad else jpeg(number))
    return folder / "pets" / "ab"[bad // 6] / f"{bad}.jpg"


IMAGES = SPEC.replace("SHAPE", "4, 4, 3").replace(
    "TRAIN", 'images("pets", size = [4, 4]) -> rename(x = image) -> shuffle(12) -> CACHEcast(x, float32)'
)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("bad", [0, 7, 11])
@pytest.mark.parametrize("data", [b"", b"some text", b"\xff\xd8\xff and no more"])
def test_an_image_that_cannot_be_read(tmp_path: Path, bad: int, data: bytes) -> None:
    """First, in the middle or last, behind `shuffle` and `cache`: the file is named."""
    path = written_images(tmp_path, bad, data)
    spec = IMAGES.replace("CACHE", "cache() -> " if bad == 7 else "")
    found = fault_of(spec, tmp_path)
    reasons = {
        b"": "the file is empty",
        b"some text": "this is neither a JPEG nor a PNG file, whatever its name",
    }
    assert (found.code, found.message.partition(": ")[0]) == ("TFD713", f"`{path}`")
    assert found.message.endswith(reasons.get(data, "Invalid JPEG data, size 15"))


def altered(number: int) -> bytes:
    """Return a record with a byte that is not the one that was written."""
    data = bytearray(record(example(x=[float(number)] * 4, label=[number % 2])))
    data[20] ^= 0xFF
    return bytes(data)


@pytest.mark.parametrize("bad", [6, pytest.param(11, marks=pytest.mark.full)])
def test_a_record_whose_bytes_were_altered(tmp_path: Path, bad: int) -> None:
    """The record is named."""
    good = [record(example(x=[float(at)] * 4, label=[at % 2])) for at in range(12)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join([*good[:bad], altered(bad), *good[bad + 1 :]]))
    source = 'tfrecord("a.tfrecord", x = feature(float32, [4]), label = feature(int32))'
    found = fault_of(SPEC.replace("SHAPE", "4").replace("TRAIN", source), tmp_path)
    reason = f"record {bad}: the checksum of its bytes is wrong"
    assert (found.code, found.message) == ("TFD710", f"`{tmp_path / 'a.tfrecord'}`, {reason}")

"""Files of weights from strangers: nothing of another file is read, and nothing swells."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.export import plain_model
from compiler.graph.storage.weight_files import INSIDE, read_weights
from compiler.graph.storage.zip_files import SwellingError, ZipArchive, require_proportion
from tests.support import refusal
from tfdeploy import api

SPEC = """
tfdeploy = 1
model "small" {
  x = input(float32, [3])
  y = input(float32, [2])
  out = x -> Dense(2, name = "out")
  loss = [y, out] -> MeanSquaredError()
}
data { train = synthetic(8, x = feature(float32, [3]), y = feature(float32, [2])) }
update { optimizer = SGD(0.1) }
"""
KERNEL, BIAS = "layers/dense/vars/0", "layers/dense/vars/1"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompiledGraph:
    """Return the graph of a model with a kernel and a bias."""
    path = tmp_path_factory.mktemp("spec") / "small.tfdeploy"
    path.write_text(SPEC)
    return api.compile(api.load(path))


def refused(compiled: CompiledGraph, path: Path) -> str:
    """Return what is said of a file that is refused, without its name."""
    found = refusal(read_weights, compiled, path, None, base=".")
    return found.message.removeprefix(f"the weights in `{path}` ")


def write(path: Path, kernel: Callable[[h5py.File], Any] | None = None) -> Path:
    """Write the weights as Keras does, with the kernel made by `kernel`."""
    with h5py.File(path, "w") as store:
        if kernel is None:
            store[KERNEL] = np.ones((3, 2), np.float32)
        else:
            kernel(store)
        store[BIAS] = np.zeros(2, np.float32)
        store["layers/dense/vars"].attrs["name"] = "out"
    return path


def test_what_keras_writes_is_read(compiled: CompiledGraph, tmp_path: Path) -> None:
    """The file that the others are made of is sound, packed by chunks too."""
    plain = read_weights(compiled, write(tmp_path / "a.weights.h5"), None, base=".")
    assert {name: array.tolist() for name, array in plain.items()} == {
        "out/kernel": [[1, 1], [1, 1], [1, 1]],
        "out/bias": [0, 0],
    }
    ones = np.ones((3, 2), np.float32)
    packed = write(
        tmp_path / "b.weights.h5", lambda store: store.create_dataset(KERNEL, data=ones, compression="gzip")
    )
    assert np.array_equal(read_weights(compiled, packed, None, base=".")["out/kernel"], ones)


def external(store: h5py.File, secret: Path) -> None:
    """Make a kernel whose numbers are another file's bytes."""
    store.create_dataset(KERNEL, (3, 2), "f4", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])


def virtual(store: h5py.File, secret: Path) -> None:
    """Make a kernel whose numbers are those of an array of another file."""
    layout = h5py.VirtualLayout((3, 2), "f4")
    layout[...] = h5py.VirtualSource(str(secret), "secret", (3, 2))
    store.create_virtual_dataset(KERNEL, layout)


def outer_link(store: h5py.File, secret: Path) -> None:
    """Let the kernel be an array of another file."""
    store[KERNEL] = h5py.ExternalLink(str(secret), "secret")


def soft_link(store: h5py.File, secret: Path) -> None:
    """Let the kernel be a name of another array, of which there is none."""
    del secret
    store[KERNEL] = h5py.SoftLink("/elsewhere")


OTHERS = {
    external: f"the numbers of `{KERNEL}` are in other files",
    virtual: f"the numbers of `{KERNEL}` are in other files",
    outer_link: f"`{KERNEL}` in it is a link to something else",
    soft_link: f"`{KERNEL}` in it is a link to something else",
}


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("make", OTHERS)
def test_no_other_file_is_read(
    compiled: CompiledGraph, tmp_path: Path, make: Callable[[h5py.File, Path], None], *, archived: bool
) -> None:
    """External storage, virtual arrays and links are refused, in both of Keras's files."""
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as store:
        store["secret"] = np.full((3, 2), 7, np.float32)
    path = write(tmp_path / "a.weights.h5", lambda store: make(store, secret))
    if archived:
        with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
            archive.write(path, INSIDE)
        path = tmp_path / "a.keras"
    assert refused(compiled, path) == f"cannot be read: {OTHERS[make]}"


def test_shapes_are_compared_before_anything_is_read(compiled: CompiledGraph, tmp_path: Path) -> None:
    """An array without numbers in the file, far larger than memory, is another shape and no more."""
    wide = (3, 80_000)
    path = write(tmp_path / "a.weights.h5", lambda store: store.create_dataset(KERNEL, wide, "f4"))
    assert refused(compiled, path) == "are not those of this model"
    vast = (10**9, 10**6)
    path = write(
        tmp_path / "b.weights.h5", lambda store: store.create_dataset(KERNEL, vast, "f4", chunks=(1, 1))
    )
    assert "which is not plausible" in refused(compiled, path)


def test_chunks_that_swell(compiled: CompiledGraph, tmp_path: Path) -> None:
    """A small array of the right shape in one packed chunk of any size is refused before that is unpacked."""

    def bomb(store: h5py.File) -> None:
        data = store.create_dataset(
            KERNEL, (3, 2), "f4", chunks=(1 << 12, 1 << 12), maxshape=(None, None), compression="gzip"
        )
        data[...] = 1

    found = refused(compiled, write(tmp_path / "a.weights.h5", bomb))
    assert found == f"cannot be read: `{KERNEL}` is packed in chunks that are larger than it is"


def test_text_is_no_weight(compiled: CompiledGraph, tmp_path: Path) -> None:
    """Strings of any length are refused."""
    path = write(
        tmp_path / "a.weights.h5",
        lambda store: store.create_dataset(KERNEL, (3, 2), h5py.string_dtype()),
    )
    assert refused(compiled, path) == f"cannot be read: `{KERNEL}` holds no numbers"


def test_archives_that_swell(compiled: CompiledGraph, tmp_path: Path) -> None:
    """A member of an archive that unpacks to 200 times its size is not unpacked."""
    path = tmp_path / "a.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(INSIDE, "w") as member:
        for _ in range(100):
            member.write(bytes(1 << 20))
    assert "would unpack to 104,857,600, which is not plausible" in refused(compiled, path)
    small = io.BytesIO()
    np.savez_compressed(
        small, zeros=np.zeros(1 << 20, np.uint8)
    )  # as much as that is nothing to be afraid of
    (tmp_path / "b.npz").write_bytes(small.getvalue())
    with ZipArchive(tmp_path / "b.npz") as archive:
        assert len(archive.read("zeros.npy")) > 1 << 20


def test_a_pipe_is_no_file_of_weights(compiled: CompiledGraph, tmp_path: Path) -> None:
    """Nobody is waited for."""
    for name in ("a.keras", "a.weights.h5"):
        os.mkfifo(tmp_path / name)
        said = "cannot be read: it is a pipe, and only regular files are read"
        assert refused(compiled, tmp_path / name) == said


@pytest.mark.parametrize(("unpacked", "packed"), [(1 << 26, 0), (200 << 20, 1 << 20)])
def test_what_a_member_may_be_unpacked(unpacked: int, packed: int) -> None:
    """64 MiB are always allowed, and more up to 200 times the size in the file."""
    require_proportion(unpacked, packed)
    with pytest.raises(SwellingError, match=f"{packed:,} bytes would unpack to {unpacked + 1:,}"):
        require_proportion(unpacked + 1, packed)


def test_what_look_ups_write_beside_weights_is_no_weight(tmp_path: Path) -> None:
    """Its numbers are below one, as the first digits of the numbers of weights are."""
    look_up = "IntegerLookup(vocabulary = [3, 5], idf_weights = [0.5, 0.25], output_mode = tf_idf)"
    text = SPEC.replace("input(float32, [3])", "input(int64, [3])").replace("x ->", f"x -> {look_up} ->")
    (tmp_path / "counts.tfdeploy").write_text(text.replace("x = feature(float32", "x = feature(int64"))
    compiled = api.compile(api.load(tmp_path / "counts.tfdeploy"))
    plain = plain_model(compiled, base=".")
    plain.model.save_weights(tmp_path / "counts.weights.h5")
    found = read_weights(compiled, tmp_path / "counts.weights.h5", None, base=".")
    assert np.array_equal(found["out/kernel"], np.asarray(plain.variables["out/kernel"]))

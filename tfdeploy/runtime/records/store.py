"""The checkpoints of a run as files: which there are, which are whole, and which may go.

A checkpoint is a pair of files that TensorFlow writes and a manifest beside them, written last. Without its
manifest it does not count, nor if the three do not belong together: the manifest carries a digest of itself
and of the index, and the index the checksums of all tensors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from attrs import asdict, evolve, frozen

from dsl.files.atomic import remove_partial
from dsl.files.regular import read_regular, system_reason
from dsl.files.typed_json import BadRecord, Count, read_record, to_json
from tfdeploy.runtime.records.files import write_atomically

NAME = "model.ckpt"
MOST_DIGITS = 18  # of a step, which TensorFlow counts in 64 bits
_FILE = re.compile(
    rf"{re.escape(NAME)}-(?P<step>0|[1-9]\d{{0,{MOST_DIGITS - 1}}})"
    r"\.(?:(?P<manifest>json)|(?:part-\d{5}\.)?(?:index|data-\d{5}-of-\d{5})(?:\.tempstate\d+)?)",
    re.ASCII,
)
"""The files of a checkpoint; TensorFlow writes those of its own under longer names first.

A large checkpoint is written in parts, which are merged at the end.
"""

_SHARD = re.compile(r"data-(?P<number>\d{5})-of-(?P<count>\d{5})", re.ASCII)


@frozen
class Manifest:
    """What a checkpoint is of."""

    step: Count
    examples: Count  # the number of examples that were consumed since the start of the run
    spec_sha256: str
    seed: Count
    time: str
    files: Mapping[str, Count]  # the sizes of its files in bytes
    index_sha256: str | None = None  # the digest of the index, or None in manifests of earlier versions
    # The digest of this record without itself, or None in manifests of earlier versions.
    sha256: str | None = None

    @property
    def digest(self) -> str:
        """The digest of all other fields."""
        fields = asdict(evolve(self, sha256=None))
        return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


@frozen
class Checkpoint:
    """A checkpoint on the disk."""

    prefix: Path  # the path that its files begin with, by which TensorFlow knows it
    manifest: Manifest

    @property
    def step(self) -> int:
        """The global step after which it was written."""
        return self.manifest.step


@frozen
class BrokenCheckpoint:
    """A checkpoint that is not whole."""

    prefix: Path
    step: int
    reason: str
    refused: bool = False  # whether the system did not let it be read, so that it may be whole


@frozen
class Store:
    """The folder `checkpoints/` of a run directory."""

    directory: Path

    def prefix(self, step: int | str) -> Path:
        """Return the path that TensorFlow knows the checkpoint of `step` by."""
        return self.directory / f"{NAME}-{step}"

    def steps(self) -> list[int]:
        """Return the steps of which there is any file, newest first."""
        if not self.directory.is_dir():
            return []
        matches = [_FILE.fullmatch(path.name) for path in self.directory.iterdir()]
        return sorted({int(match["step"]) for match in matches if match is not None}, reverse=True)

    def find(self, step: int) -> Checkpoint | BrokenCheckpoint:
        """Look at the checkpoint of `step`: whether its manifest is whole, and its files are those listed."""
        prefix = self.prefix(step)
        try:
            manifest = read_record(prefix.with_name(f"{prefix.name}.json"), Manifest)
            reason = _strange(manifest, prefix) or _changed(manifest, prefix)
        except FileNotFoundError:
            return BrokenCheckpoint(prefix, step, "it was not written to its end")
        except OSError as fault:
            return BrokenCheckpoint(prefix, step, system_reason(fault), refused=True)
        except BadRecord as fault:
            return BrokenCheckpoint(prefix, step, f"its manifest {fault}")
        return Checkpoint(prefix, manifest) if reason is None else BrokenCheckpoint(prefix, step, reason)

    def whole(self) -> list[Checkpoint]:
        """Return the checkpoints that are whole as far as their manifests tell, newest first."""
        return [each for each in map(self.find, self.steps()) if isinstance(each, Checkpoint)]

    def had_any(self) -> bool:
        """Whether a checkpoint has ever been written to its end, as far as the files in the folder tell."""
        manifests = (path.suffix == ".json" for step in self.steps() for path in self.files(step))
        return self.state.exists() or self.best.exists() or any(manifests)

    def commit(self, manifest: Manifest) -> Checkpoint:
        """Write the manifest of a checkpoint whose files are on the disk, which makes it count.

        The digests of the manifest are filled in here.
        """
        prefix = self.prefix(manifest.step)
        with_index = evolve(manifest, index_sha256=_index_digest(prefix))
        sealed = evolve(with_index, sha256=with_index.digest)
        write_atomically(prefix.with_name(f"{prefix.name}.json"), to_json(sealed, indent=1) + "\n")
        return Checkpoint(prefix, sealed)

    def remove(self, step: int) -> None:
        """Remove every file of a checkpoint, the manifest first; no other file, whatever it is called."""
        for path in sorted(self.files(step), key=lambda each: each.suffix != ".json"):
            path.unlink(missing_ok=True)

    def files(self, step: int) -> list[Path]:
        """Return the files of the checkpoint of `step` that are there, half-written ones included."""
        if not self.directory.is_dir():
            return []
        found = ((path, _FILE.fullmatch(path.name)) for path in self.directory.iterdir())
        return sorted(path for path, match in found if match is not None and int(match["step"]) == step)

    def remove_after(self, step: int) -> None:
        """Remove what is newer than `step`, half-written files included."""
        for each in self.steps():
            if each > step:
                self.remove(each)
        remove_partial(self.directory, self._is_own)

    def clear(self) -> None:
        """Remove every checkpoint, and what tells which is the newest and the best."""
        self.remove_after(-1)
        for path in (self.best, self.state):
            path.unlink(missing_ok=True)

    def _is_own(self, name: str) -> bool:
        return name == self.best.name or _FILE.fullmatch(name) is not None

    def prune(self, keep: int, spare: int | None = None) -> None:
        """Remove all but the newest `keep`, and but that of the step `spare`."""
        for each in self.whole()[max(keep, 1) :]:
            if each.step != spare:
                self.remove(each.step)

    @property
    def best(self) -> Path:
        """The file that tells which checkpoint is the best."""
        return self.directory / "best.json"

    @property
    def state(self) -> Path:
        """The file by which `tf.train.latest_checkpoint` finds the newest."""
        return self.directory / "checkpoint"


def _strange(manifest: Manifest, prefix: Path) -> str | None:
    """Say what of a manifest cannot be of the checkpoint that has its name; None if all can."""
    if prefix.name != f"{NAME}-{manifest.step}":
        return f"its manifest is of step {manifest.step}"
    if manifest.sha256 not in {None, manifest.digest}:
        return "its manifest was changed after it was written"
    endings = {name.removeprefix(f"{prefix.name}.") for name in manifest.files}
    shards = [_SHARD.fullmatch(each) for each in endings - {"index"}]
    numbers = {(int(each["number"]), int(each["count"])) for each in shards if each is not None}
    if "index" not in endings or numbers != {(at, len(shards)) for at in range(len(shards))} or not shards:
        return "its manifest does not list the files of a checkpoint"
    return None


def _changed(manifest: Manifest, prefix: Path) -> str | None:
    """Say which file of a checkpoint is not as its manifest says; None if all are."""
    for name, size in manifest.files.items():
        path = prefix.with_name(name)
        found = path.stat().st_size if path.is_file() else None
        if found is None:
            return f"`{name}` is missing"
        if found != size:
            return f"`{name}` has {found} bytes and not {size}"
    if manifest.index_sha256 not in {None, _index_digest(prefix)}:
        return f"`{prefix.name}.index` is not the one that was written with its manifest"
    return None


def _index_digest(prefix: Path) -> str:
    return sha256(read_regular(prefix.with_name(f"{prefix.name}.index"))).hexdigest()

"""The checkpoints of a run as files: which there are, which are whole, and which may go.

A checkpoint is a pair of files that TensorFlow writes and a manifest beside them, written last. Without its
manifest it does not count.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen

from dsl.regular import read_text
from tfdeploy.runtime.files import remove_partial, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "model.ckpt"
_FILE = re.compile(
    rf"{re.escape(NAME)}-(?P<step>\d+)\.(?:(?P<manifest>json)|(?:index|data-\d{{5}}-of-\d{{5}})(?:\.tempstate\d+)?)"
)
"""The files of a checkpoint; TensorFlow writes those of its own under longer names first."""


@frozen
class Manifest:
    """What a checkpoint is of.

    `examples` were consumed since the start of the run, `seed` is that of the run, `files` holds the sizes
    in bytes.
    """

    step: int
    examples: int
    spec_sha256: str
    seed: int
    time: str
    files: Mapping[str, int] = field(factory=dict)


@frozen
class Checkpoint:
    """A checkpoint on the disk; TensorFlow knows it by its `prefix`."""

    prefix: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        """The global step after which it was written."""
        return self.manifest.step


@frozen
class Broken:
    """A checkpoint that is not whole, and why."""

    prefix: Path
    step: int
    reason: str


@frozen
class Store:
    """The folder `checkpoints/` of a run directory."""

    directory: Path

    def prefix(self, step: int) -> Path:
        """Return the path that TensorFlow knows the checkpoint of `step` by."""
        return self.directory / f"{NAME}-{step}"

    def steps(self) -> list[int]:
        """Return the steps of which there is any file, newest first."""
        if not self.directory.is_dir():
            return []
        matches = [_FILE.fullmatch(path.name) for path in self.directory.iterdir()]
        return sorted({int(match["step"]) for match in matches if match is not None}, reverse=True)

    def find(self, step: int) -> Checkpoint | Broken:
        """Look at the checkpoint of `step`: whether the files of its manifest are there, in their sizes."""
        prefix = self.prefix(step)
        try:
            manifest = _read(prefix.with_name(f"{prefix.name}.json"))
        except FileNotFoundError:
            return Broken(prefix, step, "it was not written to its end")
        except (ValueError, TypeError, KeyError, OSError):
            return Broken(prefix, step, "its manifest is damaged")
        for name, size in manifest.files.items():
            path = self.directory / name
            found = path.stat().st_size if path.is_file() else None
            if found is None:
                return Broken(prefix, step, f"`{name}` is missing")
            if found != size:
                return Broken(prefix, step, f"`{name}` has {found} bytes and not {size}")
        return Checkpoint(prefix, manifest)

    def whole(self) -> list[Checkpoint]:
        """Return the checkpoints that are whole as far as their manifests tell, newest first."""
        return [each for each in map(self.find, self.steps()) if isinstance(each, Checkpoint)]

    def commit(self, manifest: Manifest) -> Checkpoint:
        """Write the manifest of a checkpoint whose files are on the disk, which makes it count."""
        prefix = self.prefix(manifest.step)
        write_whole(prefix.with_name(f"{prefix.name}.json"), json.dumps(asdict(manifest), indent=1) + "\n")
        return Checkpoint(prefix, manifest)

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


def _read(path: Path) -> Manifest:
    fields: dict[str, Any] = json.loads(read_text(path))
    return Manifest(
        step=int(fields["step"]),
        examples=int(fields["examples"]),
        spec_sha256=str(fields["spec_sha256"]),
        seed=int(fields["seed"]),
        time=str(fields["time"]),
        files={str(name): int(size) for name, size in fields["files"].items()},
    )

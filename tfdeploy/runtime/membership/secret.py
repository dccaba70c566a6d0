"""The secret that the processes of a run share, and by which a server knows who may shut it down.

It is kept in a file that only its user can read. The launcher makes one for each of its runs. If tasks are
started one by one, it is the file that the environment variable TFDEPLOY_SECRET_FILE names, else one in the
user's configuration folder. The first process that needs the secret makes it, so storage that all tasks share
is enough. The secret is never sent: a server gets a shutdown token, which can be made only with the secret,
and which is not valid for another server, nor for the same server after a restart. The token is an HMAC (RFC
2104) with SHA-256.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from attrs import field, frozen

from dsl.diagnostics import RunError
from dsl.errors import cluster as errors
from dsl.files.atomic import create_private_file
from dsl.files.regular import system_reason
from tfdeploy.runtime.stop import temporary_folder

VARIABLE = "TFDEPLOY_SECRET_FILE"
BYTES = 32
LONGEST = 4096
MARK = 12
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@frozen
class Secret:
    """The secret of a run."""

    _value: bytes = field(repr=False)

    @property
    def public_digest(self) -> str:
        """A digest that may be shown: it differs between secrets, and does not reveal them."""
        return sha256(b"mark" + self._value).hexdigest()[:MARK]

    def signature(self, text: bytes) -> str:
        """Return what only a process with the secret can write below a text."""
        return hmac.new(self._value, b"said " + text, sha256).hexdigest()

    def shutdown_token(self, incarnation: str) -> str:
        """Return the token that shuts down the server with this incarnation."""
        return hmac.new(self._value, incarnation.encode(), sha256).hexdigest()

    def is_shutdown_token(self, shutdown_token: str, incarnation: str) -> bool:
        """Whether a text is the token that shuts down the server with this incarnation.

        Args:
            incarnation: The name of one start of the server, so that a token of an earlier start is not
                valid.
        """
        return hmac.compare_digest(shutdown_token.encode(), self.shutdown_token(incarnation).encode())


def secret_of(environment: Mapping[str, str]) -> Secret:
    """Return the secret that the environment names, or this user's own. It is made if there is none.

    Raises:
        RunError: If its file can be neither read nor made, or if others can read it.
    """
    path = path_of(environment)
    with suppress(FileNotFoundError):
        return _read(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(path)
    except OSError as fault:
        raise _fault(path, system_reason(fault)) from fault
    try:
        return _read(path)
    except FileNotFoundError as gone:
        raise _fault(path, "it has been removed") from gone


def path_of(environment: Mapping[str, str]) -> Path:
    """Return the file of the secret, which need not exist."""
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE])
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME") or Path.home()) / ".config")
    return Path(home) / "tfdeploy" / "secret"


@contextmanager
def own_secret() -> Iterator[Path]:
    """Make a new secret, and yield its file, which is removed when the block ends."""
    with temporary_folder() as folder:
        _make(folder / "secret")
        yield folder / "secret"


def _fault(path: Path, reason: str, advice: str | None = None) -> RunError:
    return RunError(errors.no_secret(path=str(path), reason=reason, advice=advice))


def _make(path: Path) -> None:
    """Write a new secret; one that another process has just written is kept."""
    create_private_file(path, f"{secrets.token_hex(BYTES)}\n".encode())


def _read(path: Path) -> Secret:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise _fault(path, system_reason(fault)) from fault
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _fault(path, "it is no file")
        if found.st_mode & OTHERS:
            advice = f"let only its user read it: `chmod 600 {path}`; if others may have read it, remove it"
            raise _fault(path, "others than its user can read it", advice)
        value = os.read(descriptor, LONGEST).strip()
    finally:
        os.close(descriptor)
    if len(value) < BYTES:
        raise _fault(path, f"it holds less than {BYTES} bytes", "remove it, and a new one is made")
    return Secret(value)

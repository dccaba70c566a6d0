"""The secret of a run: a file that only its user can read, made once by whoever comes first."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.tasks import Tasks
from tests.support import refusal
from tfdeploy.runtime.membership.secret import VARIABLE, own_secret, path_of, secret_of

SCRIPT = (
    "import os; from tfdeploy.runtime.membership.secret import secret_of; "
    "print(secret_of(os.environ).public_digest)"
)


def reason(path: Path) -> str:
    """Return why a file is refused."""
    found = refusal(lambda: secret_of({VARIABLE: str(path)}))
    assert found.code == "TFD770"
    return found.message


def test_whoever_comes_first_makes_it(tmp_path: Path) -> None:
    """Processes that begin at once have one secret, which others cannot read, and leave nothing beside it."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environment.pop(VARIABLE, None)
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    marks = {each.communicate()[0] for each in processes}
    (path,) = (tmp_path / "config" / "tfdeploy").iterdir()
    assert path == path_of(environment)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert marks == {f"{secret_of(environment).public_digest}\n"}


def test_every_launch_has_its_own() -> None:
    """Two launchers have two secrets, and neither leaves its own behind."""
    with own_secret() as first, own_secret() as second:
        marks = {secret_of({VARIABLE: str(each)}).public_digest for each in (first, second)}
        assert len(marks) == 2
        assert {stat.S_IMODE(each.stat().st_mode) for each in (first, second)} == {0o600}
    assert not first.parent.exists()
    with own_secret() as first:
        shutil.rmtree(first.parent)  # then nothing is left to remove


def test_a_word_is_for_one_server_alone(tmp_path: Path) -> None:
    """What one server was told is of no use for another, nor with another secret."""
    secret = secret_of({VARIABLE: str(tmp_path / "one")})
    shutdown_token = secret.shutdown_token("a")
    assert secret.is_shutdown_token(shutdown_token, "a")
    assert not secret.is_shutdown_token(shutdown_token, "b")
    assert not secret.is_shutdown_token("\xe9", "a")
    assert not secret_of({VARIABLE: str(tmp_path / "two")}).is_shutdown_token(shutdown_token, "a")
    assert shutdown_token not in repr(secret)


def test_files_that_are_refused(tmp_path: Path) -> None:
    """Files that others read, that hold next to nothing, or are none; a FIFO does not hang."""
    path = tmp_path / "secret"
    secret_of({VARIABLE: str(path)})
    path.chmod(0o640)
    assert reason(path).endswith("others than its user can read it")
    path.write_text("short")
    path.chmod(0o600)
    assert reason(path).endswith("it holds less than 32 bytes")
    assert reason(tmp_path).endswith("it is no file")
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert reason(tmp_path / "fifo").endswith("it is no file")
    assert reason(path / "below").endswith("not a directory")


@pytest.mark.full
def test_a_client_with_another_secret_is_refused(tasks: Tasks) -> None:
    """It could not end the servers, and says so before it trains."""
    server = tasks.serve("ps:0")
    server.until("listens")
    workers = [tasks.serve(f"worker:{index}") for index in range(2)]
    client = tasks.start("compile-and-run", str(tasks.spec), TFDEPLOY_SECRET_FILE=str(tasks.folder / "other"))
    assert client.end() == 2
    assert "does not have the secret of this process" in client.text
    assert "error[TFD771]" in client.text
    for each in (server, *workers):
        assert each.process.poll() is None

"""The tracker `mlflow` with a real server of MLflow on this machine, from the registry, with SQLite."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from dsl.files.typed_json import read_record
from tests.cli.test_fuzz import SPEC
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.track.tracking import Tracked

pytestmark = [pytest.mark.full, pytest.mark.slow]
MLFLOW = "mlflow>=3,<4"
PATIENCE = 300.0


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the packages of an environment with the whole of MLflow: 850 MB, in about two minutes."""
    given = os.environ.get("TFDEPLOY_MLFLOW")
    place = Path(given) if given else tmp_path_factory.mktemp("mlflow") / "environment"
    if not given:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "--quiet", MLFLOW], check=True)
    return next(place.glob("lib/python*/site-packages"))


@pytest.fixture(scope="module")
def server(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Serve MLflow on a free port of the loopback device; yield its address and its group of processes."""
    folder = tmp_path_factory.mktemp("server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        packages.parents[2] / "bin" / "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
        "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/store.db",
        "--artifacts-destination", folder / "files", "--serve-artifacts",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=folder, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urlopen(f"{address}/health", timeout=5):  # noqa: S310 our own server
                    break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.2)
        yield address, process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask(address: str, what: str, **fields: Any) -> Any:
    """Return what the server answers to a request of its own interface."""
    request = Request(  # noqa: S310 our own server
        f"{address}/api/2.0/mlflow/{what}",
        json.dumps(fields).encode() if fields else None,
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:  # noqa: S310 our own server
        return json.load(answer)


def run(folder: Path, packages: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run tfdeploy with MLflow behind all packages of this environment."""
    (folder / "spec.tfdeploy").write_text(SPEC)
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.path.append({str(packages)!r})\n")
    command = [sys.executable, "-m", "tfdeploy", *words]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, timeout=PATIENCE, check=False
    )


def test_a_server_has_what_the_run_has(packages: Path, server: tuple[str, int], tmp_path: Path) -> None:
    """Settings, scores and files; one that hangs loses nothing, and a run that goes on is the same one."""
    address, group = server
    train = ["compile-and-run", "spec.tfdeploy", "--set"]

    def track(wait: str) -> str:
        return f'train.track=mlflow(server = "{address}", experiment = "tried", wait = {wait})'

    done = run(tmp_path, packages, *train, track("300s"))
    assert (done.returncode, "TFD782" in done.stderr) == (0, False)
    directory = RunDirectory(tmp_path / "runs" / "spec")
    record = read_record(directory.track, Tracked)
    assert (record.lines, record.complete, record.fault) == (3, True, None)
    (found,) = ask(address, "runs/search", experiment_ids=["1"])["runs"]
    assert (found["info"]["run_id"], found["info"]["status"]) == (record.run, "FINISHED")
    params = {each["key"]: each["value"] for each in found["data"]["params"]}
    assert params["update.optimizer.learning_rate"] == "0.1"
    losses = [json.loads(line)["loss"] for line in directory.history.read_text().splitlines()]
    metrics = {each["key"]: each["value"] for each in found["data"]["metrics"]}
    assert metrics["train/loss"] == pytest.approx(losses[-1])
    listed = {each["path"] for each in ask(address, f"artifacts/list?run_id={record.run}")["files"]}
    assert listed == {"spec.tfdeploy", "placement.json", "result.json", "model.keras"}

    os.killpg(group, signal.SIGSTOP)
    try:
        done = run(tmp_path, packages, *train, "train.steps=5", "--set", track("1s"))
        assert done.returncode == 0
        assert "warning[TFD782]: `mlflow` has got" in done.stderr
        assert "finished at step 5" in done.stdout
    finally:
        os.killpg(group, signal.SIGCONT)
    done = run(tmp_path, packages, "runs", "--deliver")
    assert done.returncode == 0, done.stderr
    (found,) = ask(address, "runs/search", experiment_ids=["1"])["runs"]
    steps = {each["key"]: int(each["step"]) for each in found["data"]["metrics"]}
    assert (steps["train/loss"], found["info"]["status"]) == (5, "FINISHED")


def test_a_server_that_is_gone(packages: Path, tmp_path: Path) -> None:
    """The run ends as it would, and says why nothing was sent."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    done = run(
        tmp_path, packages, "compile-and-run", "spec.tfdeploy", "--set",
        f'train.track=mlflow(server = "{address}", wait = 300s)',
    )  # fmt: skip
    assert done.returncode == 0
    assert "warning[TFD782]: `mlflow` has got 0 of 3 lines of the history, and no files" in done.stderr
    assert address in done.stderr

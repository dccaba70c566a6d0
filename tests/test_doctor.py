"""`tfdeploy doctor` finds what would fail: each judgement on its own, and this machine as a whole."""

from __future__ import annotations

import json
import signal
import socket
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import pytest
import tensorflow as tf
from click.testing import CliRunner

from tfdeploy.cli.commands import doctor
from tfdeploy.cli.commands.doctor import _lines
from tfdeploy.cli.group import load
from tfdeploy.doctor import Finding, machine, software
from tfdeploy.doctor.probe import Started
from tfdeploy.runtime.start_tensorflow import except_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 1 << 30
STARTED = Started("2.21.0", "3.14.0", "12.5", ("NVIDIA H100", "NVIDIA H100"), GIB // 2)


@pytest.mark.full
@pytest.mark.slow
def test_this_machine_is_fine() -> None:
    """The tests run here, so nothing fails; versions and devices are those that this process has."""
    found = {each.name: each for each in doctor.examine().findings}
    assert {each.name for each in found.values() if each.state == "failure"} == set()
    assert f"TensorFlow {tf.__version__} " in found["tensorflow"].found
    assert found["tensorflow"].found.endswith(f"Keras {keras.__version__}")
    assert ("none" in found["gpus"].found) == (not tf.config.list_physical_devices("GPU"))
    assert "a process of TensorFlow takes" in found["memory"].found


def test_findings_are_printed_and_decide_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a failure 1, else 0; a line of JSON has the same findings."""
    broken = Finding("tensorflow", "failure", "it does not start: no", "install it again")
    monkeypatch.setattr(software, "start", lambda: (broken, None))
    done = CliRunner().invoke(load("doctor"), [], standalone_mode=False)
    assert done.return_value == 1
    assert (
        "FAILS    tensorflow  it does not start: no\n                      = install it again\n"
        in done.stdout
    )
    assert done.stdout.endswith("\n1 of these would fail\n")
    told = CliRunner().invoke(load("doctor"), ["--json"], standalone_mode=False)
    content = json.loads(told.stdout)
    assert (told.return_value, content["healthy"]) == (1, False)
    assert {each["name"]: each["state"] for each in content["findings"]}["tensorflow"] == "failure"
    fine = (Finding("tensorflow", "fine", "it starts"), STARTED)
    monkeypatch.setattr(software, "start", lambda: fine)
    done = CliRunner().invoke(load("doctor"), [], standalone_mode=False)
    assert (done.return_value, done.stdout.endswith("\nnothing here would fail\n")) == (0, True)


@pytest.mark.parametrize(
    ("code", "err", "words"),
    [
        (-signal.SIGILL, "", "instructions that this processor lacks"),
        (-signal.SIGKILL, "", "was killed"),
        (1, "Traceback\n  at\nImportError: libx.so is missing\n", "ImportError: libx.so is missing"),
        (1, "", "exit code 1"),
    ],
)
def test_a_tensorflow_that_does_not_start(code: int, err: str, words: str) -> None:
    """How its process ended says what is wrong."""
    found, started = software.judge_start(code, "", err)
    assert (found.state, started, words in found.found) == ("failure", None, True)
    assert found.advice


def test_an_answer_that_is_no_record_is_a_failure() -> None:
    """It is not taken for a TensorFlow that has started."""
    found, started = software.judge_start(0, '{"tensorflow": "2.21.0"}', "")
    assert (found.state, started) == ("failure", None)
    assert "lacks `keras`" in found.found


@pytest.mark.parametrize(
    ("there", "visible", "state", "words"),
    [
        (2, None, "fine", "2: NVIDIA H100, NVIDIA H100"),
        (4, None, "warning", "the driver has 4, and TensorFlow can use 2"),
        (4, "0,1", "fine", "because CUDA_VISIBLE_DEVICES is '0,1'"),
    ],
)
def test_gpus(there: int, visible: str | None, state: str, words: str) -> None:
    """Those that TensorFlow cannot use are noticed, unless they are hidden on purpose."""
    found = software.judge_gpus(STARTED, there, visible)
    assert (found.state, words in found.found) == (state, True)


@pytest.mark.parametrize(
    ("free", "state", "words"),
    [(GIB // 4, "failure", ""), (GIB * 3 // 4, "warning", ""), (4 * GIB, "fine", "so 8 tasks")],
)
def test_memory_is_counted_in_processes_of_tensorflow(free: int, state: str, words: str) -> None:
    """None, one, or several of them fit."""
    found = machine.judge_memory(8 * GIB, free, STARTED.peak_bytes)
    assert (found.state, words in found.found) == (state, True)


@pytest.mark.parametrize(
    ("text", "quota"),
    [("max 100000\n", None), ("150000 100000\n", 1.5), ("", None)],
    ids=["max", "1.5", "none"],
)
def test_the_time_of_cores(tmp_path: Path, text: str, quota: float | None) -> None:
    """The limit of a control group counts if it is less than the cores."""
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert machine._quota(file) == quota
    assert machine._quota(tmp_path / "none") is None
    found = machine.judge_cores(8, 4, quota)
    assert (found.state, "4 of 8" in found.found) == ("fine" if quota is None else "warning", True)
    assert ("the time of 1.5" in found.found) == (quota == 1.5)


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({"here": True, "temporary": True, "free": 2 * GIB}, "fine"),
        ({"here": True, "temporary": True, "free": GIB // 2}, "warning"),
        ({"here": False, "temporary": True, "free": 2 * GIB}, "warning"),
        ({"here": True, "temporary": False, "free": 2 * GIB}, "failure"),
    ],
)
def test_disk(settings: Mapping[str, Any], state: str) -> None:
    """TensorFlow needs temporary files; run directories need space, here or elsewhere."""
    assert machine.judge_disk("/here", **settings).state == state


def test_a_network_without_free_ports_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of the operating system is in the finding."""

    def refuse(*_: object, **__: object) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    assert machine.loopback().state == "fine"
    monkeypatch.setattr(socket, "create_server", refuse)
    found = machine.loopback()
    assert (found.state, "operation not permitted" in found.found) == ("failure", True)


@pytest.mark.parametrize(
    ("environment", "state"),
    [
        ({}, "fine"),
        ({"HTTP_PROXY": "http://proxy:3128"}, "fine"),
        ({"http_proxy": "http://proxy:3128"}, "warning"),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "localhost,.example.com"}, "warning"),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "localhost, 127.0.0.1"}, "fine"),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "127.0.0.0/8"}, "fine"),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "127.0.0.1", "no_grpc_proxy": "a.b"}, "warning"),
    ],
)
def test_proxies(environment: dict[str, str], state: str) -> None:
    """Those that gRPC uses stand between tasks of several machines; tasks of this one are always excepted."""
    assert machine.proxy(environment).state == state
    changed = dict(environment)
    except_loopback(changed)
    assert machine.proxy(changed).state == "fine"
    assert state == "warning" or changed == environment
    assert all(changed.get(each, "").startswith(kept) for each, kept in environment.items())


def test_names_that_are_shared_or_come_from_elsewhere() -> None:
    """Both are failures, and the other distribution is named."""
    own = {name: ["tfdeploy"] for name in software.INNER}
    root = Path("/env")
    assert software.judge_names(own, [root]).state == "fine"
    shared = software.judge_names({**own, "grammar": ["tfdeploy", "grammars"]}, [root])
    assert (shared.state, shared.found) == ("failure", "grammar is also of grammars")
    moved = software.judge_names(own, [root, Path("/other")])
    assert (moved.state, "/other" in moved.found) == ("failure", True)


@pytest.mark.parametrize(
    ("need", "wrong"),
    [
        ("click>=1.0", ""),
        ("click>=1.0,<2.0", "click is {click}, not <2.0"),
        ("click>=99", "click is {click}, not >=99"),
        ("no-such-package>=1", "no-such-package is missing"),
    ],
)
def test_packages_that_are_missing_or_of_another_version(need: str, wrong: str) -> None:
    """Each requirement is compared with what is installed."""
    assert software._what_is_wrong(need) == wrong.format(click=metadata.version("click"))


def test_programs(tmp_path: Path) -> None:
    """A browser without a screen, the editors that are known, and whether they can start the server."""
    programs_there = ("firefox", "nvim", "emacs", "code", "tfdeploy")
    installed = {name: f"/usr/bin/{name}" for name in programs_there}.get
    assert software.browser(installed, {"DISPLAY": ":0"}).found == "firefox"
    assert software.browser(installed, {}).found.startswith("firefox, but no screen")
    assert software.browser({}.get, {"DISPLAY": ":0"}).found.startswith("none")
    (tmp_path / ".vscode" / "extensions" / "tfdeploy.tfdeploy-0.1.0").mkdir(parents=True)
    (tmp_path / ".config" / "nvim" / "pack" / "mine" / "start" / "other").mkdir(parents=True)
    found = software.editor(tmp_path, installed, {})
    with_files, without = "with the files for specs", "without the files for specs"
    assert found.found == f"Visual Studio Code ({with_files}), Neovim ({without}), Emacs"
    assert found.state == "fine"
    (tmp_path / ".config" / "nvim" / "pack" / "mine" / "start" / "tfdeploy").mkdir()
    assert f"Neovim ({with_files})" in software.editor(tmp_path, installed, {}).found
    away = software.editor(tmp_path, {"vim": "/usr/bin/vim"}.get, {"EDITOR": "ed"})
    assert (away.state, away.found.startswith("ed (")) == ("warning", True)
    assert software.editor(tmp_path, {}.get, {}).state == "fine"


def test_long_words_stay_whole() -> None:
    """A path that is wider than the terminal can be copied from it."""
    path = "/" + "x" * 200
    assert _lines("fine  ", f"it is {path} here").splitlines() == [
        "fine  it is",
        f"      {path}",
        "      here",
    ]

"""`tfdeploy doctor` finds what would fail: each judgement on its own, and this machine as a whole."""

import json
import signal
import socket
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from click.testing import CliRunner

from tfdeploy.cli.commands import doctor
from tfdeploy.cli.commands.doctor import _lines
from tfdeploy.cli.group import load
from tfdeploy.doctor import Finding, machine, software
from tfdeploy.doctor.software import Started
from tfdeploy.runtime.start_tensorflow import except_loopback

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


def test_what_is_said_of_what_is_found(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """How TensorFlow has ended, GPUs that it cannot use, processes that fit, limits of cores, and more."""
    own, root = {name: ["tfdeploy"] for name in software.INNER}, Path("/env")
    missing = "Traceback\n  at\nImportError: libx.so is missing\n"
    starts = ((-signal.SIGILL, "", ""), (-signal.SIGKILL, "", ""), (1, "", missing), (1, "", ""))
    answers = [software.judge_start(*each) for each in (*starts, (0, '{"tensorflow": "2.21.0"}', ""))]
    assert [started for _, started in answers] == [None] * len(answers)
    found = [each for each, _ in answers]
    found += [software.judge_gpus(STARTED, *each) for each in ((2, None), (4, None), (4, "0,1"))]
    sizes = (GIB // 4, GIB * 3 // 4, 4 * GIB)
    found += [machine.judge_memory(8 * GIB, free, STARTED.peak_bytes) for free in sizes]
    file = tmp_path / "cpu.max"
    for text in ("max 100000\n", "150000 100000\n", ""):
        file.write_text(text)
        found.append(machine.judge_cores(8, 4, machine._quota(file)))
    assert machine._quota(tmp_path / "none") is None
    for here, temporary, free in ((1, 1, 2 * GIB), (1, 1, GIB // 2), (0, 1, 2 * GIB), (1, 0, 2 * GIB)):
        found.append(machine.judge_disk("/here", here=bool(here), temporary=bool(temporary), free=free))
    found.append(software.judge_names(own, [root]))
    found.append(software.judge_names({**own, "grammar": ["tfdeploy", "grammars"]}, [root]))
    found.append(software.judge_names(own, [root, Path("/other")]))
    lines = [f"{each.name}, {each.state}: {each.found}\n  = {each.advice}\n" for each in found]
    packages = ("click>=1.0", "click>=1.0,<2.0", "click>=99", "no-such-package>=1")
    lines += [f"{each}: {software._what_is_wrong(each)}\n" for each in packages]
    golden("doctor.txt", "".join(lines).replace(metadata.version("click"), "VERSION"))


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

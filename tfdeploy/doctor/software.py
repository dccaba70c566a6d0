"""Programs: Python and the packages that tfdeploy needs, TensorFlow, a browser for pages, and editors."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import TypeAlias

from attrs import frozen

from dsl.files.typed_json import BadRecord, Count, parse_record, to_json
from tfdeploy.doctor import Finding
from tfdeploy.runtime.start_tensorflow import start_tensorflow

OWN = "tfdeploy"
INNER = ("compiler", "dsl", "grammar")
"""The top-level packages of tfdeploy whose names are common words."""

_NEED = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)")
_BOUND = re.compile(r"(?P<relation>>=|<)(?P<version>[\d.]+)")


def python() -> Finding:
    """Return the version of Python, and whether it is that of an environment."""
    version = f"{platform.python_implementation()} {platform.python_version()}, {sys.platform}"
    place = f"{version}, in {sys.prefix}"
    if not sys.platform.startswith("linux"):
        return Finding("python", "warning", place, "tfdeploy is made for Linux, and tested only there")
    return Finding("python", "fine", place)


def packages() -> Finding:
    """Return whether every package that tfdeploy requires is there, in a version that it can use."""
    needs = [each for each in metadata.requires(OWN) or () if "extra ==" not in each]
    wrong = [word for each in needs if (word := _what_is_wrong(each))]
    own = f"tfdeploy {metadata.version(OWN)}"
    if wrong:
        advice = f"install tfdeploy again, so that these are right: {'; '.join(wrong)}"
        return Finding("packages", "failure", own, advice)
    return Finding("packages", "fine", f"{own}, with the {len(needs)} packages that it requires")


def _what_is_wrong(need: str) -> str:
    """Return what is wrong with the package that a requirement names; an empty text if nothing is.

    Of the bounds, those that tfdeploy states are understood: `>=` and `<`.
    """
    parts = _NEED.match(need)
    assert parts is not None
    name = parts["name"]
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is missing"
    for relation, bound in _BOUND.findall(parts["bounds"]):
        if (_numbers(version) >= _numbers(bound)) != (relation == ">="):
            return f"{name} is {version}, not {relation}{bound}"
    return ""


def _numbers(version: str) -> list[int]:
    """Return the numbers with which a version begins, without zeros at the end: [2, 21] for `2.21.0rc1`."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    found = [int(each) for each in release[0].split(".")] if release else []
    while found and not found[-1]:
        found.pop()
    return found


def names() -> Finding:
    """Return whether another package has a top-level name of tfdeploy's inner packages."""
    return judge_names(metadata.packages_distributions(), _folders())


def _folders() -> set[Path]:
    """Return the folders from which the packages of tfdeploy are imported: one, if all is well."""
    files = [import_module(each).__file__ for each in (OWN, *INNER)]
    return {Path(each).resolve().parent.parent for each in files if each is not None}


def judge_names(owners: Mapping[str, Sequence[str]], folders: Iterable[Path]) -> Finding:
    """Judge whether names are shared."""
    shared = {
        name: sorted({*owners.get(name, ())} - {OWN}) for name in INNER if {*owners.get(name, ())} - {OWN}
    }
    if shared:
        found = "; ".join(f"{name} is also of {', '.join(others)}" for name, others in shared.items())
        return Finding("names", "failure", found, "install tfdeploy into an environment of its own")
    places = sorted(map(str, folders))
    if len(places) > 1:
        found = f"the packages of tfdeploy come from {' and '.join(places)}"
        return Finding("names", "failure", found, "remove one of these folders from PYTHONPATH")
    return Finding("names", "fine", f"{', '.join(INNER)} are those of tfdeploy, in {places[0]}")


PATIENCE = 180.0
"""The seconds after which a TensorFlow that has not started is taken to hang."""

NVIDIA = Path("/proc/driver/nvidia/gpus")
KEPT_LINES = 3


def start() -> tuple[Finding, Started | None]:
    """Start TensorFlow in a process, and return how that went and what the process has found."""
    command = [sys.executable, "-P", "-m", "tfdeploy.doctor.software"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        found = f"it has not started within {PATIENCE:.0f} seconds"
        advice = "no command that builds a graph will work; try again when the machine is less busy"
        return Finding("tensorflow", "failure", found, advice), None
    return judge_start(done.returncode, done.stdout, done.stderr)


def judge_start(code: int, out: str, err: str) -> tuple[Finding, Started | None]:
    """Judge the end of the process."""
    if code == 0:
        try:
            started = parse_record(out.encode(), Started)
        except BadRecord as fault:
            return Finding(
                "tensorflow", "failure", f"what it says of itself {fault}", "install it again"
            ), None
        build = "without CUDA" if started.cuda is None else f"for CUDA {started.cuda}"
        found = f"TensorFlow {started.tensorflow} (built {build}), Keras {started.keras}"
        return Finding("tensorflow", "fine", found), started
    if code == -signal.SIGILL:
        found = "it uses instructions that this processor lacks"
        advice = "use a machine whose processor has AVX, or a TensorFlow that was built for this one"
        return Finding("tensorflow", "failure", found, advice), None
    if code == -signal.SIGKILL:
        found = "its process was killed while it started"
        advice = "this happens if the memory is exhausted; see `memory`"
        return Finding("tensorflow", "failure", found, advice), None
    last = " ".join(err.strip().splitlines()[-KEPT_LINES:]) or f"exit code {code}"
    advice = "no command that builds a graph will work; install tfdeploy again into a new environment"
    return Finding("tensorflow", "failure", f"it does not start: {last}", advice), None


def gpus(started: Started) -> Finding:
    """Return the GPUs of the machine."""
    there = len(list(NVIDIA.iterdir())) if NVIDIA.is_dir() else 0
    return judge_gpus(started, there, os.environ.get("CUDA_VISIBLE_DEVICES"))


def judge_gpus(started: Started, there: int, visible: str | None) -> Finding:
    """Judge the GPUs."""
    number = len(started.gpus)
    if number >= there:
        if not number:
            return Finding("gpus", "fine", "none; `--emulate` tries a spec for GPUs on logical CPU devices")
        return Finding("gpus", "fine", f"{number}: {', '.join(started.gpus)}")
    found = f"the driver has {there}, and TensorFlow can use {number}"
    if visible is not None:
        return Finding("gpus", "fine", f"{found}, because CUDA_VISIBLE_DEVICES is {visible!r}")
    advice = "specs with more GPUs than that will not run; install CUDA's libraries with tfdeploy[cuda]"
    return Finding("gpus", "warning", found, advice)


BROWSERS = ("xdg-open", "firefox", "chromium", "chromium-browser", "google-chrome")
EDITORS = {
    "code": "Visual Studio Code",
    "codium": "VSCodium",
    "nvim": "Neovim",
    "vim": "Vim",
    "emacs": "Emacs",
}
FILES = {
    "code": (".vscode/extensions/tfdeploy.tfdeploy-*", ".vscode-server/extensions/tfdeploy.tfdeploy-*"),
    "codium": (".vscode-oss/extensions/tfdeploy.tfdeploy-*",),
    "nvim": (
        ".config/nvim/pack/*/*/tfdeploy",
        ".config/nvim/ftdetect/tfdeploy.vim",
        ".local/share/nvim/*/*/ftdetect/tfdeploy.vim",
    ),
    "vim": (".vim/pack/*/*/tfdeploy", ".vim/*/*/ftdetect/tfdeploy.vim", ".vim/ftdetect/tfdeploy.vim"),
}
"""Where each editor keeps the files for specs, below the folder of the user. Emacs can have them anywhere."""

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


Find: TypeAlias = "Callable[[str], str | None]"


def browser(find: Find = shutil.which, environment: Mapping[str, str] = os.environ) -> Finding:
    """Return the browser that can show the pages of `plan --html`."""
    there = next((each for each in BROWSERS if find(each)), None)
    away = "pages of `plan --html` are single files, and can be opened on another machine"
    if there is None:
        return Finding("browser", "fine", f"none; {away}")
    if not any(environment.get(each) for each in SCREENS):
        return Finding("browser", "fine", f"{there}, but no screen; {away}")
    return Finding("browser", "fine", there)


def editor(home: Path, find: Find = shutil.which, environment: Mapping[str, str] = os.environ) -> Finding:
    """Return the editors that are installed, and which of them have the files for specs."""
    there = [
        f"{title} ({'with' if _set_up(program, home) else 'without'} the files for specs)"
        if program in FILES
        else title
        for program, title in EDITORS.items()
        if find(program)
    ]
    chosen = environment.get("VISUAL") or environment.get("EDITOR")
    named = [f"{chosen} (the one that VISUAL or EDITOR names)"] if chosen else []
    if not there and not named:
        return Finding("editor", "fine", "none of those that are known; specs are plain text")
    found = ", ".join([*named, *there])
    if not find("tfdeploy"):
        advice = (
            "editors and hooks of pre-commit start `tfdeploy` by its name, which is not on the path: add its "
            "folder to PATH, or name the program in the settings of the editor"
        )
        return Finding("editor", "warning", found, advice)
    return Finding("editor", "fine", found)


def _set_up(program: str, home: Path) -> bool:
    """Whether an editor has the files of `editors/` at one of the places where they are usually put."""
    return any(next(home.glob(pattern), None) is not None for pattern in FILES[program])


# --- TensorFlow, started in a process of its own ----------------------------------------------------------


@frozen
class Started:
    """What a process that has started TensorFlow knows."""

    tensorflow: str
    keras: str
    cuda: str | None  # the version of CUDA that TensorFlow was built for; None for a build without CUDA
    gpus: tuple[str, ...]
    peak_bytes: Count  # the largest amount of memory that the process has held


def main() -> int:
    """Start TensorFlow and print the record, as one line of JSON.

    It is run as a process of its own, because a TensorFlow that does not fit the machine can end its process.
    """
    tf = start_tensorflow()
    import importlib

    keras = importlib.import_module("keras")
    devices = tf.config.list_physical_devices("GPU")
    gpus = tuple(
        str(tf.config.experimental.get_device_details(each).get("device_name", each.name)) for each in devices
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cuda = tf.sysconfig.get_build_info().get("cuda_version")
    sys.stdout.write(to_json(Started(tf.__version__, keras.__version__, cuda, gpus, peak)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

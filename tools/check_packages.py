"""Build the sdist and, from it, the wheel; install each into fresh environments and use it from elsewhere.

The sdist is installed by pip, and the wheel by the two programs that the README names, pipx and uv. With each
a model is trained. `make package` runs this, and leaves what is built in `build/packages/`. It fails if a
file of the project's packages is missing from what was built, or another one is in it, which an editable
install cannot show, and if the metadata lacks an address of the project.
"""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "build" / "packages"
FOLDERS = ("compiler", "dsl", "grammar", "tfdeploy")
DIGITS = ("digits.tfdeploy", "data/digits/train.csv", "data/digits/test.csv")
COMMANDS = (
    ("--version",),
    ("check", "digits.tfdeploy"),
    ("init",),
    ("init", "--template", "gpt"),
    ("check", "start.tfdeploy", "gpt.tfdeploy"),
    ("doctor",),
    ("explain", "TFD401"),
    ("plan", "digits.tfdeploy", "--html", "placement.html"),
    ("compile-and-run", "digits.tfdeploy", "--set", "train.steps=4"),
)


def main() -> int:
    """Build the sdist and the wheel, and try both."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(PACKAGES), str(ROOT))
    for package in sorted(PACKAGES.iterdir()):
        different = differences(package, ROOT)
        if different:
            sys.exit(f"{package.name} is not what the folders have:\n" + "\n".join(different))
        missing = missing_urls(package, ROOT)
        if missing:
            sys.exit(f"{package.name} lacks addresses of the project:\n" + "\n".join(missing))
        with tempfile.TemporaryDirectory(prefix="tfdeploy-package-") as folder:
            install = with_tools if package.suffix == ".whl" else with_pip
            for program in install(package, Path(folder)):
                _try(program, Path(folder) / "work")
    return 0


def differences(package: Path, root: Path) -> list[str]:
    """Return a line for each file that only a package has, or only the folders of the project have.

    Args:
        package: The sdist or the wheel. An sdist may have more files beside the folders.
        root: The folder of the project.
    """
    wanted = {
        str(path.relative_to(root))
        for folder in FOLDERS
        for base, _, names in os.walk(root / folder, followlinks=True)
        for path in (Path(base, name) for name in names)
        if "__pycache__" not in path.parts
    }
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            there = {each for each in archive.namelist() if not each.split("/")[0].endswith(".dist-info")}
    else:
        with tarfile.open(package) as tar:
            names = [PurePosixPath(*PurePosixPath(each.name).parts[1:]) for each in tar if each.isfile()]
        there = {str(each) for each in names if each.parts[0] in FOLDERS}
    missing, foreign = sorted(wanted - there), sorted(there - wanted)
    return [*(f"- {each}" for each in missing), *(f"+ {each}" for each in foreign)]


def missing_urls(package: Path, root: Path) -> list[str]:
    """Return the addresses that `pyproject.toml` has and the metadata of a package has not.

    Args:
        package: The sdist or the wheel.
        root: The folder of the project.
    """
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            text = archive.read(name)
    else:
        with tarfile.open(package) as tar:
            (member,) = (each for each in tar if PurePosixPath(each.name).parts[1:] == ("PKG-INFO",))
            file = tar.extractfile(member)
            assert file is not None
            text = file.read()
    there = email.message_from_bytes(text).get_all("Project-URL", [])
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [f"{name}, {address}" for name, address in project.get("urls", {}).items()]
    return [each for each in wanted if each not in there]


def with_pip(package: Path, folder: Path) -> Iterator[Path]:
    """Install a package into a new virtual environment, and yield its `tfdeploy`."""
    environment = folder / "environment"
    _run(sys.executable, "-m", "venv", str(environment))
    pip = (str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, str(package), said=f"pip install {package.name}")
    yield environment / "bin" / "tfdeploy"


def with_tools(package: Path, folder: Path) -> Iterator[Path]:
    """Install a package as a program of its own, first with pipx and then with uv; yield each `tfdeploy`."""
    python = ("--python", sys.executable)
    homes = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "pipx-bin")}
    pipx = (sys.executable, "-m", "pipx", "install", "--quiet", *python, str(package))
    _run(*pipx, said=f"pipx install {package.name}", homes=homes)
    yield folder / "pipx-bin" / "tfdeploy"
    shutil.rmtree(folder / "pipx")  # two environments with TensorFlow need gigabytes
    homes = {"UV_TOOL_DIR": str(folder / "uv"), "UV_TOOL_BIN_DIR": str(folder / "uv-bin")}
    uv = (sys.executable, "-m", "uv", "tool", "install", "--quiet", *python, str(package))
    _run(*uv, said=f"uv tool install {package.name}", homes=homes)
    yield folder / "uv-bin" / "tfdeploy"


def _try(program: Path, here: Path) -> None:
    """Run the commands in a folder that has a spec and its data and nothing else."""
    shutil.rmtree(here, ignore_errors=True)
    for name in DIGITS:
        target = here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "examples" / name, target)
    for command in COMMANDS:
        _run(str(program), *command, at=here, said=f"  tfdeploy {' '.join(command)}")


def _run(
    *command: str, at: Path | None = None, said: str = "", homes: Mapping[str, str] | None = None
) -> None:
    """Run a command without this project's folder on its path; its failure ends the program.

    Args:
        command: The program and its arguments.
        at: The folder in which it runs.
        said: What is printed, with the time that it took; nothing is printed without it.
        homes: Variables of the environment that it gets beside those of this process.
    """
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    begin = time.monotonic()
    done = subprocess.run(
        command, cwd=at, env={**clean, **(homes or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    if said:
        print(f"{said}: {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())

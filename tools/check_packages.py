"""Build the sdist and, from it, the wheel; install each into a fresh environment and use it from elsewhere.

`make package` runs this, and leaves what is built in `build/packages/`. It fails if a file of the project's
packages is missing from what was built, or another one is in it, which an editable install cannot show.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

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
    """Build both packages and try both."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(PACKAGES), str(ROOT))
    for package in sorted(PACKAGES.iterdir()):
        different = differences(package, ROOT)
        if different:
            sys.exit(f"{package.name} is not what the folders have:\n" + "\n".join(different))
        with tempfile.TemporaryDirectory(prefix="tfdeploy-package-") as folder:
            _try(package, Path(folder))
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


def _try(package: Path, folder: Path) -> None:
    """Install `package` into an environment under `folder`, and run the commands in a folder of its own."""
    print(f"{package.name}: installed into a fresh environment", flush=True)
    environment, here = folder / "environment", folder / "work"
    _run(sys.executable, "-m", "venv", str(environment))
    _run(str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", str(package))
    for name in DIGITS:
        target = here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "examples" / name, target)
    for command in COMMANDS:
        print(f"{package.name}: tfdeploy {' '.join(command)}", flush=True)
        _run(str(environment / "bin" / "tfdeploy"), *command, at=here)


def _run(*command: str, at: Path | None = None) -> None:
    """Run a command without this project's folder on its path; its failure ends the program."""
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=at, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())

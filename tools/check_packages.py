"""Build the sdist and, from it, the wheel; install each into a fresh environment and use it from elsewhere.

`make package` runs this, and leaves what is built in `build/packages/`. It fails if a file that the tool
needs is missing from a package, which an editable install cannot show.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "build" / "packages"
DIGITS = ("digits.tfdeploy", "data/digits/train.csv", "data/digits/test.csv")
COMMANDS = (
    ("--version",),
    ("check", "digits.tfdeploy"),
    ("explain", "TFD401"),
    ("plan", "digits.tfdeploy", "--html", "placement.html"),
    ("compile-and-run", "digits.tfdeploy", "--set", "train.steps=4"),
)


def main() -> int:
    """Build both packages and try both."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(PACKAGES), str(ROOT))
    for package in sorted(PACKAGES.iterdir()):
        with tempfile.TemporaryDirectory(prefix="tfdeploy-package-") as folder:
            _try(package, Path(folder))
    return 0


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

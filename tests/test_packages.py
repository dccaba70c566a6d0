"""The house is in order: what is packaged is what is there."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.folders import ROOT
from tools import project_urls
from tools.check_packages import differences, missing_urls

LAYERS = ("dsl", "grammar", "compiler", "tfdeploy")
SOURCE = "https://github.com/Some-One/copy"
PROGRAM = re.compile(r"python -m ((?:benchmarks|tools)(?:\.\w+)*)")


def test_every_package_is_listed() -> None:
    """The explicit list of packages names each folder with modules, and no other."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {
        str(file.parent.relative_to(ROOT)).replace("/", ".")
        for layer in LAYERS
        for file in (ROOT / layer).rglob("*.py")
    }
    assert sorted(listed) == sorted(there)


def test_the_lock_has_what_the_project_asks_for() -> None:
    """Every requirement of `pyproject.toml` is pinned in the lock, to a version that it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in ("dev", "docs") for each in project["optional-dependencies"][extra]),
    ]
    lock = (ROOT / "requirements-dev.lock").read_text()
    pins = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([^ ;\\]+)", lock, re.MULTILINE)
    }
    for requirement in map(Requirement, wanted):
        if requirement.name != "tfdeploy":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), str(requirement)


def test_the_lock_has_all_that_its_packages_need() -> None:
    """So that they can be installed without looking for dependencies, as `.venv` is."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "--no-deps --require-hashes -r requirements-dev.lock" in (ROOT / "Makefile").read_text()


@pytest.mark.full
def test_packages_have_every_file_of_the_folders_and_no_other(tmp_path: Path) -> None:
    """In the sdist and in the wheel that is built of it, with the addresses of the project in both.

    That a missing file or address is noticed is shown as well.
    """
    for name in (*LAYERS, "examples/zoo"):
        shutil.copytree(
            ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    assert project_urls.main([SOURCE, "--project", str(tmp_path / "pyproject.toml")]) == 0
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sdist, wheel = sorted((tmp_path / "dist").iterdir(), key=lambda each: each.suffix)
    assert (sdist.suffix, wheel.suffix) == (".gz", ".whl")
    assert (differences(sdist, tmp_path), differences(wheel, tmp_path)) == ([], [])
    assert (missing_urls(sdist, tmp_path), missing_urls(wheel, tmp_path)) == ([], [])
    project = tmp_path / "pyproject.toml"
    project.write_text(project.read_text().replace(f'"{SOURCE}"', '"https://example.org"'))
    lacking = ["Source, https://example.org"]
    assert (missing_urls(sdist, tmp_path), missing_urls(wheel, tmp_path)) == (lacking, lacking)
    (tmp_path / "tfdeploy" / "later.css").touch()
    (tmp_path / "examples" / "zoo" / "gpt.tfdeploy").unlink()
    expected = ["- tfdeploy/later.css", "+ tfdeploy/templates/zoo/gpt.tfdeploy"]
    assert (differences(sdist, tmp_path), differences(wheel, tmp_path)) == (expected, expected)


def test_the_addresses_of_a_release_are_those_of_its_repository(tmp_path: Path) -> None:
    """They are written into the metadata that packages are built from, beside all that it had before."""
    project = tmp_path / "pyproject.toml"
    shutil.copy(ROOT / "pyproject.toml", project)
    before = tomllib.loads(project.read_text())
    assert project_urls.main([f"{SOURCE}.git", "--project", str(project)]) == 0
    after = tomllib.loads(project.read_text())
    assert after["project"].pop("urls") == {
        "Documentation": "https://some-one.github.io/copy/",
        "Source": SOURCE,
        "Issues": f"{SOURCE}/issues",
        "Changelog": f"{SOURCE}/blob/HEAD/CHANGELOG.md",
    }
    assert after == before
    (script,) = [each for each in release_steps("build") if "tools.project_urls" in each]
    assert script == 'python -m tools.project_urls "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"'
    steps = release_steps("build")
    assert steps.index("make test") < steps.index(script) < steps.index("make package")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["https://example.org/copy"], "say where they are with --documentation"),
        (["https://example.org/copy", "--documentation", "docs"], "'docs' is not an address"),
        (["git@github.com:some/copy"], "say where they are"),
        (
            ["http://github.com/a/b", "--documentation", "https://example.org"],
            "is not an address that begins",
        ),
        (['https://github.com/a/b"', "--documentation", "https://example.org"], "is not an address"),
    ],
)
def test_what_is_no_address_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """The message says what is wrong, and the file is as it was."""
    project = tmp_path / "pyproject.toml"
    shutil.copy(ROOT / "pyproject.toml", project)
    with pytest.raises(SystemExit, match="2"):
        project_urls.main([*arguments, "--project", str(project)])
    assert said in capsys.readouterr().err
    assert project.read_text() == (ROOT / "pyproject.toml").read_text()


def test_addresses_are_not_written_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A project that has addresses keeps them."""
    project = tmp_path / "pyproject.toml"
    shutil.copy(ROOT / "pyproject.toml", project)
    given = ["https://example.org/a", "--documentation", "https://example.org/b", "--project", str(project)]
    assert project_urls.main(given) == 0
    text = project.read_text()
    with pytest.raises(SystemExit, match="2"):
        project_urls.main(given)
    assert "the project has addresses already" in capsys.readouterr().err
    assert project.read_text() == text


def release_steps(job: str) -> list[str]:
    """Return the commands of a job of the workflow that makes releases."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    return [each["run"] for each in workflow["jobs"][job]["steps"] if "run" in each]


def test_the_readme_stands_on_its_own() -> None:
    """A package index shows it without the repository: there is no link to a file, and no picture."""
    text = (ROOT / "README.md").read_text()
    assert [each for each in re.findall(r"\]\(([^)]*)\)", text) if not each.startswith("https://")] == []


def test_the_rooms_that_the_architecture_names_are_there() -> None:
    """Every folder and file of `ARCHITECTURE.md` is in the tree, or in a room that it is named in."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = ("", "compiler/", "compiler/graph/", "tfdeploy/", "tfdeploy/runtime/", "docs/", "tests/")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", text))
    assert len(named) > 30
    assert [each for each in sorted(named) if not any((ROOT / room / each).exists() for room in rooms)] == []


def rooms_of_the_architecture() -> dict[str, str]:
    """Return the folders in the tree of `ARCHITECTURE.md`, each with what stands beside it."""
    tree = re.findall(r"^```\n(.*?)^```", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    rooms: dict[str, str] = {}
    above: list[str] = []
    for line in tree.splitlines():
        found = re.match(r"( *)([a-z_]+)/ +(.*)", line)
        if found is None:
            rooms["/".join(above)] += f" {line.strip()}"
            continue
        above[len(found[1]) // 2 :] = [found[2]]
        rooms["/".join(above)] = found[3]
    return rooms


def test_the_architecture_names_every_room() -> None:
    """Every package stands in the tree of `ARCHITECTURE.md`, or in the words beside its parent."""
    rooms = rooms_of_the_architecture()
    assert [each for each in rooms if not (ROOT / each).is_dir()] == []
    packages = [each.parent for layer in LAYERS for each in (ROOT / layer).rglob("__init__.py")]
    assert len(packages) > 60
    for package in packages:
        path = package.relative_to(ROOT)
        assert str(path) in rooms or f"{path.name}/" in rooms.get(str(path.parent), ""), path


def test_every_program_of_the_documentation_can_be_run() -> None:
    """What pages and docstrings call as `python -m` is a module, or a package that can be run."""
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/**/*.py"),
        ROOT / "Makefile",
    ]
    named = {name for page in pages for name in PROGRAM.findall(page.read_text(encoding="utf-8"))}
    assert {"benchmarks.forecasts", "benchmarks.placement", "tools.make_reference"} <= named
    paths = [ROOT.joinpath(*name.split(".")) for name in named]
    runnable = [each.with_suffix(".py").is_file() or (each / "__main__.py").is_file() for each in paths]
    assert [path for path, found in zip(paths, runnable, strict=True) if not found] == []

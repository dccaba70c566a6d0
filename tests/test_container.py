"""The file of the container image names what is there; no container is built here."""

import json
import re
import tomllib

from tests.folders import ROOT
from tfdeploy.kubernetes.resources import USER

FILE = ROOT / "deploy" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the file, each with its arguments; a line that is continued is one."""
    text = re.sub(r"\\\n\s*", "", FILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    """Return the arguments of the instructions of one kind."""
    return [rest for each, rest in instructions() if each == word]


def test_what_is_copied_is_there() -> None:
    """The sources that are copied from the project exist, and what is made or fetched is left out of them."""
    for rest in of("COPY"):
        *sources, _ = (each for each in rest.split() if not each.startswith("--"))
        assert [each for each in sources if not (ROOT / each).exists()] == []
    left_out = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "build", "**/node_modules"} <= set(left_out)


def test_the_wheel_that_is_installed_is_the_one_that_is_made() -> None:
    """The first stage makes it of the copied folder, and the second finds it where the first has put it."""
    build, install, _ = of("RUN")
    (copied,) = (rest.split()[-1] for rest in of("COPY"))
    made = re.search(r"--wheel-dir (\S+) (\S+)$", build)
    assert made[2] == copied
    (stage,) = (rest.split(" AS ")[1] for rest in of("FROM") if " AS " in rest)
    assert f"from={stage},source={made[1]},target={made[1]}" in install
    assert f"{made[1]}/*.whl" in install
    assert re.search(r"EXTRAS=\[(\w+)\]", FILE.read_text())[1] in PROJECT["optional-dependencies"]  # type: ignore[index] # it is there


def test_the_image_starts_the_command_as_the_user_of_the_manifests() -> None:
    """Its Python is one that the project takes, its command is installed with it, and its user is theirs."""
    minors = {re.fullmatch(r"python:3\.(\d+)-slim", rest.split(" AS ")[0])[1] for rest in of("FROM")}  # type: ignore[index] # each matches
    assert len(minors) == 1
    assert f"Programming Language :: Python :: 3.{minors.pop()}" in PROJECT["classifiers"]
    (command,) = of("ENTRYPOINT")
    assert json.loads(command)[0] in PROJECT["scripts"]
    assert of("USER") == [str(USER)]
    *_, user = of("RUN")
    assert f"--uid {USER} " in user
    (folder,) = of("WORKDIR")
    assert f"mkdir {folder}" in user
    assert f"chown runner {folder}" in user

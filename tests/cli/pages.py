"""The examples of the pages of codes: what they consist of, and running them."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from attrs import frozen
from click.testing import CliRunner

from dsl.codes import Code
from tfdeploy.cli.commands.explain import page
from tfdeploy.cli.group import load

HEADINGS = re.compile(r"^(?:# (TFD.*)|## (Wrong|Right|Why))\n", re.MULTILINE)
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REPORTED = re.compile(r"^(?:error|warning)\[(TFD\d+)\]", re.MULTILINE)


@frozen
class Example:
    """The files of an example, and the commands that are run on them."""

    files: dict[str, str]
    commands: tuple[str, ...]

    @property
    def specs(self) -> list[str]:
        """The names of the specs among the files."""
        return [name for name in self.files if name.endswith(".tfdeploy")]

    def run(self, directory: Path) -> list[str]:
        """Run the example in `directory`, the current one; return the codes that its last command reports."""
        for name, content in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        reported: list[str] = []
        for line in self.commands:
            if line.startswith("tfdeploy "):
                reported = _tfdeploy(shlex.split(line)[1:])
            else:
                path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
                subprocess.run(
                    ["/bin/sh", "-c", line], cwd=directory, env={**os.environ, "PATH": path}, check=True
                )
        return reported


def sections(code: Code) -> dict[str, str]:
    """Return the parts of the page of `code` by their headings; the first is the title."""
    parts = HEADINGS.split(page(code))
    names = [title or heading for title, heading in zip(parts[1::3], parts[2::3], strict=True)]
    return dict(zip(names, parts[3::3], strict=True))


def example(code: Code, section: str) -> Example:
    """Return the example in `section` of the page of `code`."""
    files: dict[str, str] = {}
    commands: tuple[str, ...] = ("tfdeploy check spec.tfdeploy",)
    for kind, name, content in FENCE.findall(sections(code)[section]):
        if kind == "console":
            commands = tuple(line.removeprefix("$ ") for line in content.splitlines())
        else:
            files[name or "spec.tfdeploy"] = content
    return Example(files, commands)


def _tfdeploy(arguments: list[str]) -> list[str]:
    """Run a command of tfdeploy in this process, and return the codes that it reports."""
    name, *rest = arguments
    if name == "check":
        result = CliRunner().invoke(load(name), [*rest, "--format", "json"], standalone_mode=False)
        return [each["code"] for each in json.loads(result.stdout)["diagnostics"]]
    result = CliRunner().invoke(load(name), rest, standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    reported = list(dict.fromkeys(REPORTED.findall(result.stderr)))
    assert bool(reported) or result.return_value == 0, result.output
    return reported

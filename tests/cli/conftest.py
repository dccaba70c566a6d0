"""Running the command as people do."""

import gc
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from attrs import frozen
from click.testing import CliRunner

from tfdeploy import own_process
from tfdeploy.cli import main

GOOD = """\
tfdeploy = 1

model "m" {
  x = input(float32, [4])
  y = x -> Dense(2)
  output = y
}
"""


INSIDE = ("-m", "tfdeploy")


@frozen
class Finished:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


@frozen
class Command:
    """`tfdeploy` in a directory of its own."""

    directory: Path

    def __call__(
        self,
        *arguments: str,
        program: tuple[str, ...] = INSIDE,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes = "",
    ) -> Finished:
        """Run the command with `arguments`; an `env` value of None removes a variable.

        It runs in this process. What is given as another `program` is a process of its own.
        """
        plain = {"NO_COLOR": None, "FORCE_COLOR": None, "TERM": "xterm", **(env or {})}
        given = stdin.encode() if isinstance(stdin, str) else stdin
        if program == INSIDE:
            return self._inside(list(arguments), plain, given)
        variables = {**os.environ, **{key: value for key, value in plain.items() if value is not None}}
        for key, value in plain.items():
            if value is None:
                variables.pop(key, None)
        done = subprocess.run(
            [sys.executable, *program, *arguments],
            cwd=self.directory,
            env=variables,
            input=given,
            capture_output=True,
            check=False,
            timeout=120,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    def _inside(self, arguments: list[str], env: Mapping[str, str | None], stdin: bytes) -> Finished:
        with (
            CliRunner().isolation(input=stdin, env=env) as (out, err, _),
            chdir(self.directory),
            mock.patch.object(sys, "argv", ["tfdeploy", *arguments]),
            mock.patch.object(own_process, "own"),  # the process of the tests goes on
            mock.patch.object(gc, "freeze"),
        ):
            with pytest.raises(SystemExit) as ended:
                main()
            sys.stdout.flush()
            sys.stderr.flush()
            found = Finished(int(ended.value.code or 0), out.getvalue().decode(), err.getvalue().decode())
            assert not found.out.endswith("\n\n"), "the last line is empty"
            return found

    def session(self, *lines: str, **given: Any) -> str:
        """Return what each command line writes, messages after `!`, and its exit code.

        A file after ` < ` is the standard input. `cat FILE` and `ls` are what they are in a shell.
        """
        shown = []
        for line in lines:
            words, _, file = line.partition(" < ")
            match shlex.split(words):
                case ["cat", name]:
                    shown.append(f"$ {line}\n{self.read(name)}")
                case ["ls"]:
                    shown.append(f"$ {line}\n{'  '.join(self.names())}\n")
                case arguments:
                    stdin = {"stdin": (self.directory / file).read_bytes()} if file else {}
                    done = self(*arguments, **given, **stdin)
                    errors = "".join(f"! {each}\n" for each in done.err.splitlines())
                    shown.append(f"$ tfdeploy {line}\n{done.out}{errors}[{done.code}]\n")
        return "\n".join(shown).replace(str(self.directory), "FOLDER")

    def names(self) -> list[str]:
        """Return the names of all that is in the directory."""
        return sorted(each.name for each in self.directory.iterdir())

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a file into the directory."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def read(self, name: str) -> str:
        """Return the text of a file of the directory, line ends as they are."""
        return (self.directory / name).read_bytes().decode()


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The command, in a temporary directory with a good spec `good.tfdeploy`."""
    found = Command(tmp_path)
    found.write("good.tfdeploy", GOOD)
    return found

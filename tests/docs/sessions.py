"""A page read as a session: files are written, changes made and commands run in the order of the page.

Blocks with a title are files; a `diff` changes one. In a `console` block, lines that start with `$` are
commands, and what stands below one is what it prints; a line `...` stands for any lines. Times and rates
differ from run to run and do not count; what training came to may differ a little, since rounding does; every
other figure is held. Commands of tfdeploy run in this process, so that TensorFlow starts once for all
pages.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from math import isclose
from pathlib import Path
from typing import Any

from attrs import define, field
from click.testing import CliRunner
from tensorflow.python.framework.config import disable_op_determinism

from tests.docs.frames import tutorial
from tests.docs.pages import ROOT, Block
from tfdeploy.cli.common import Common
from tfdeploy.cli.faults import guarded
from tfdeploy.cli.group import tfdeploy

EXAMPLES = ROOT / "examples"
DIGITS = EXAMPLES / "data" / "digits"
ELISION = "..."
VARIES = "varies"
"""The comment before a block of whose runs no two are alike."""

VARYING = (
    re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"),
    re.compile(r"\b[0-9a-f]{64}\b"),
    re.compile(r"(?<![\w.])\d[\d,.]* (?:ms|s|min|h)\b"),
    re.compile(r"(?<![\w.])\d[\d,.]* examples/s"),
    re.compile(r"(?<![\w.])\d[\d,.]*/s(?: +x [\d.]+)?(?!\w)"),
    re.compile(r'(?<="examples_per_second": )[\d.]+'),
    re.compile(r"(?<![\w.])\d+ %(?= of the (?:time|training))"),
    re.compile(r"(?<=memory of a profiled step: ).*"),
)
"""What differs from run to run: moments, digests, times, rates, shares of a time, and measured memory."""

RESULT = re.compile(r"(?<![\w.])-?\d+\.\d{4,}(?![\w.])")
"""A figure that training came to, with four decimals or more: another processor may round differently."""


@define
class Session:
    """A directory in which the blocks of a page are followed, the current one meanwhile."""

    directory: Path
    code: int = 0
    names: dict[str, Any] = field(factory=lambda: {"__name__": "__main__"})

    def prepare(self, page: str) -> None:
        """Put the data and the spec of the tutorial in place, and those of a page that has others."""
        for name in ("train.csv", "test.csv"):
            shutil.copy(DIGITS / name, self.directory / name)
        (self.directory / "digits.tfdeploy").write_text(tutorial())
        if page == "recommender.md":
            shutil.copy(EXAMPLES / "recommender.tfdeploy", self.directory)
            shutil.copytree(EXAMPLES / "data" / "clicks", self.directory / "data" / "clicks")
        disable_op_determinism()  # which another test of this process may have left on

    def follow(self, block: Block) -> str:
        """Do what a block says; return the block's text with what was really printed."""
        if block.title is not None and block.kind != "diff":
            path = self.directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.kind == "diff":
            assert block.title is not None, f"{block.where}: a diff names its file"
            change(self.directory / block.title, block.text)
        elif block.kind == "console":
            return self.console(block.text, varies=block.remark == VARIES)
        elif block.kind == "python":
            self.python(block)
        elif block.kind == "sh":
            self.checks(block)
        return block.text

    def checks(self, block: Block) -> None:
        """Run what is quick among the commands of a block without output: checks of files that are there."""
        for line in block.text.splitlines():
            words = shell_words(line)
            if words[:2] == ["tfdeploy", "check"] and (self.directory / words[2]).exists():
                printed = self.run(line)
                assert self.code == 0, printed

    def console(self, text: str, *, varies: bool = False) -> str:
        """Run the commands of a block; return it with what they print where that is not what stands there.

        With `varies`, no two runs come to the same figures.
        """
        shown = []
        for command, expected in commands_of(text):
            before = self._checkpoints()
            printed = self.run(command).splitlines()
            trains = self.code == 0 and "compile-and-run" in command
            assert not trains or self._checkpoints() != before, f"`{command}` trained nothing:\n{printed}"
            held = matches(expected, printed, varies=varies)
            shown += [f"$ {command}", *(expected if held else renewed(expected, printed))]
        return "".join(f"{line}\n" for line in shown)

    def _checkpoints(self) -> set[Path]:
        return set(self.directory.rglob("model.ckpt-*.index"))

    def run(self, command: str) -> str:
        """Run a command and return what it prints."""
        if command == "echo $?":
            return f"{self.code}\n"
        own, pipe, rest = command.partition("|")
        words = shell_words(own)
        if words[0] not in {"tfdeploy", "compile-and-run"} or any(is_operator(word) for word in words):
            return self._shell(command)
        stdout, stderr, mixed = self._tfdeploy(words[1:] if words[0] == "tfdeploy" else words)
        return stderr + self._shell(rest, stdout) if pipe else mixed

    def _shell(self, command: str, stdin: str = "") -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.directory,
            env={**os.environ, "PATH": path},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.code = done.returncode
        return done.stdout

    def _tfdeploy(self, arguments: list[str]) -> tuple[str, str, str]:
        """Run a command of tfdeploy in this process; return its output, its errors, and both as they came."""
        with CliRunner().isolation(env={"NO_COLOR": "1", "COLUMNS": "90"}) as streams:
            self.code = guarded(
                Common(), lambda: tfdeploy.main(arguments, prog_name="tfdeploy", standalone_mode=False)
            )
            sys.stdout.flush()
            sys.stderr.flush()
            stdout, stderr, mixed = (each.getvalue().decode() for each in streams)
        return stdout, stderr, mixed

    def python(self, block: Block) -> None:
        """Run a block of Python; the names of the page's earlier blocks are there."""
        code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
        with redirect_stdout(StringIO()) as printed:
            exec(code, self.names)  # noqa: S102  # running what the page shows is the point
        self.names["printed"] = printed.getvalue()

    def printed(self) -> str:
        """Return what the last block of Python printed."""
        return str(self.names.get("printed", ""))


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, each with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            found[-1][1].append(line)
    return found


def shell_words(command: str) -> list[str]:
    """Return the words of a command line, operators such as `|` being words."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    return list(lexer)


def is_operator(word: str) -> bool:
    """Whether a word joins commands or files."""
    return bool(word) and set(word) <= set("|&;<>")


def change(path: Path, diff: str) -> None:
    """Replace the lines with a minus by those with a plus; blank lines part changes at several places."""
    for change_ in diff.split("\n\n"):
        lines = change_.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in "- ")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in "+ ")
        text = path.read_text()
        assert text.count(before) == 1, f"{path.name} has not just one place with:\n{before}"
        path.write_text(text.replace(before, after))


def plain(line: str) -> str:
    """Return a line without what differs from run to run: times, rates and digests.

    Where one of them was, the width of columns does not count either.
    """
    masked = line
    for pattern in VARYING:
        masked = pattern.sub("#", masked)
    return line.rstrip() if masked == line else " ".join(masked.split())


def same(expected: str, printed: str, *, varies: bool = False) -> bool:
    """Whether a line is that of the page: what training came to about so, all else to the letter."""
    if RESULT.sub("#", plain(expected)) != RESULT.sub("#", plain(printed)):
        return False
    pairs = zip(RESULT.findall(expected), RESULT.findall(printed), strict=True)
    return varies or all(
        isclose(float(one), float(other), rel_tol=0.05, abs_tol=0.05) for one, other in pairs
    )


def matches(expected: list[str], printed: list[str], *, varies: bool = False) -> bool:
    """Whether what was printed is what stands in the page; a line `...` stands for any lines."""
    if not expected:
        return not printed
    if expected[0].strip() == ELISION:
        rests = (printed[start:] for start in range(len(printed) + 1))
        return any(matches(expected[1:], rest, varies=varies) for rest in rests)
    if not printed or not same(expected[0], printed[0], varies=varies):
        return False
    return matches(expected[1:], printed[1:], varies=varies)


def renewed(expected: list[str], printed: list[str]) -> list[str]:
    """Return what was printed, shortened where the page shortened it; lines that are the same stay."""
    kept = list(expected)
    lines = []
    for line in printed:
        stays = next((at for at, each in enumerate(kept) if same(each, line)), None)
        lines.append(line if stays is None else kept.pop(stays))
    if [each.strip() for each in expected].count(ELISION) != 1:
        return lines
    head = next(at for at, each in enumerate(expected) if each.strip() == ELISION)
    tail = len(expected) - head - 1
    return [*lines[:head], expected[head], *(lines[-tail:] if tail else [])]

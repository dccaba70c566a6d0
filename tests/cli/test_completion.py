"""Completion in a shell: what the tables of the language know is offered while one types."""

import os
import pty
import re
import shutil
import subprocess
import sys
import tty
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem

from dsl.codes import CODES
from dsl.schema.vocabulary import override_completions
from tests.cli.conftest import GOOD, Command
from tests.docs.pages import DOCS
from tests.placement_maps import make_map
from tfdeploy.cli.commands.completion import PROGRAMS
from tfdeploy.cli.completion import Bash, _is_open, _names_of_map, codes
from tfdeploy.cli.group import COMMANDS, load


def test_what_the_script_of_bash_reads() -> None:
    """A file by its endings and the folders, a value with what may follow it, and others by their kinds."""
    bash = Bash(click.Command("tfdeploy"), {}, "tfdeploy", "_COMPLETE")
    file = CompletionItem("", type="file", endings=(".tfdeploy", ".json"))
    assert bash.format_completion(file) == "ending,.tfdeploy\nending,.json\ndir,"
    assert bash.format_completion(CompletionItem("", type="dir")) == "dir,"
    items = [bash.format_completion(CompletionItem(each)) for each in ("plan", "update.mode=")]
    assert items == ["plain,plan", "part,update.mode="]


@pytest.mark.parametrize(
    ("line", "is_open"),
    [
        ("tfdeploy check two", False),
        ("tfdeploy check 'two", True),
        ('tfdeploy check "two', True),
        ("tfdeploy check 'two words'", False),
        ("tfdeploy check \"it's", True),
        ("tfdeploy check # 'two", True),  # nothing is a comment
        ("tfdeploy check two\\", False),  # what follows is not known yet
    ],
)
def test_a_quote_is_open_until_it_is_closed(line: str, *, is_open: bool) -> None:
    """Names are offered as they are within a quote, and with backslashes outside of it."""
    assert _is_open(line) == is_open


def test_something_is_offered_for_every_argument() -> None:
    """Files with their endings for a spec; names of a map and jobs are known only after the spec."""
    silent = {
        (name, each.name)
        for name in COMMANDS
        for each in load(name).params
        if isinstance(each, click.Argument) and not each.shell_complete(click.Context(load(name)), "")
    }
    assert silent == {("why", "name"), ("scale", "job")}


def test_the_names_in_a_map(tmp_path: Path) -> None:
    """Variables and ops of the map itself; a file that is no map and no spec has none."""
    path = tmp_path / "placement.json"
    path.write_text(make_map(2).to_json())
    names = _names_of_map(str(path))
    assert {"conv1/kernel", "clone_1/conv1/Relu"} <= set(names)
    path.with_suffix(".tfdeploy").write_text("tfdeploy = 1\n")
    assert _names_of_map(str(path.with_suffix(".tfdeploy"))) == []


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("clones.", ("clones.count=", "clones.batch=", "clones.global_batch=")),
        ("update.mode=", ("update.mode=sync", "update.mode=async", "update.mode=local")),
        (
            "update.optimizer=Ada",
            tuple(f"update.optimizer=Ada{each}(" for each in ("delta", "factor", "grad", "m", "mW", "max")),
        ),
        ("train.deterministic=t", ("train.deterministic=true",)),
        ("train.nothing=", ()),
        ("nothing.at=all", ()),
    ],
)
def test_paths_and_values_of_set(typed: str, offered: tuple[str, ...]) -> None:
    """Attributes are offered with their block, then the words and calls that an attribute takes."""
    assert sorted(override_completions(typed)) == sorted(offered)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", list(CODES)),
        ("TFD74", ["TFD740", "TFD741", "TFD742"]),
        ("tfd741", ["TFD741"]),
        ("checkpoint-d", ["checkpoint-damaged", "checkpoint-does-not-fit"]),
        ("nothing-like-it", []),
    ],
)
def test_diagnostics_are_offered_by_code_or_by_name(typed: str, offered: list[str]) -> None:
    """Names are written with small letters; a code may be."""
    command = click.Command("explain")
    found = codes(click.Context(command), typed)
    assert set(offered) <= set(found)
    assert all(each.lower().startswith(typed.lower()) for each in found)
    assert len(found) == len(set(found))


SPEC = GOOD + 'train { steps = 1, directory = "runs/m" }\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with specs, other files, and the map that a run has left."""
    path = tmp_path_factory.mktemp("typed")
    for name in ("digits.tfdeploy", "other/deep.tfdeploy", "two words.tfdeploy"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(SPEC)
    (path / "digits.csv").write_text("")
    (path / "map.json").write_text("")
    (path / "runs" / "m").mkdir(parents=True)
    (path / "runs" / "m" / "placement.json").write_text(make_map().to_json())
    return path


LINES = {
    # typed, a tabulator at the end: what stands there then
    "tfdeploy che\t": "check",
    "tfdeploy check dig\t": "digits.tfdeploy",
    "tfdeploy check oth\t": "other/",
    "tfdeploy check other/\t": "other/deep.tfdeploy",
    "tfdeploy check two\t": "two words.tfdeploy",
    "tfdeploy check 'two\t": "two words.tfdeploy",
    "compile-and-run dig\t": "digits.tfdeploy",
    "tfdeploy plan ma\t": "map.json",
    "tfdeploy plan digits.tfdeploy --html digits.c\t": "digits.csv",
    "tfdeploy predict digits.tfdeploy --input digits.c\t": "digits.csv",
    "tfdeploy explain TFD40\x1b*": "TFD401 TFD402 TFD403 TFD404 TFD405 TFD406 TFD407 TFD408 TFD409",
    "tfdeploy explain no-such-d\t": "no-such-device",
    "tfdeploy check digits.tfdeploy --set update.mod\t": "update.mode=",
    "tfdeploy check digits.tfdeploy --set update.mode=s\t": "update.mode=sync",
    "tfdeploy check digits.tfdeploy --set 'update.mode=s\t": "update.mode=sync",
    "tfdeploy check digits.tfdeploy --set update.optimizer=AdamW\t'0.1)'": "update.optimizer=AdamW(0.1)",
    "tfdeploy why digits.tfdeploy lo\tk\t": "logits/kernel",
    "tfdeploy why digits.tfdeploy cl\t0/conv1/C\t": "clone_0/conv1/Conv2D",
    "tfdeploy plan digits.tfdeploy --filter upd\t": "update/",
    "tfdeploy why runs/m conv1/k\t": "conv1/kernel",
    "tfdeploy why nothing.tfdeploy digits.c\t": "digits.csv",
    "tfdeploy init --template transf\t": "transformer_classifier",
}


@pytest.mark.full
def test_bash_completes_what_is_typed(folder: Path) -> None:
    """In a real bash on a terminal, with the lines of the documentation in its start-up file."""
    page = (DOCS / "how-to" / "vary.md").read_text()
    lines = re.findall(r'^eval "\$\(tfdeploy completion bash\)"$', page, re.MULTILINE)
    assert len(lines) == 1
    typed = [f"{line}\x01printf '<%s>' \x05\n" for line in LINES]  # to the line's beginning, and its end
    found = re.findall(r"((?:<[^<>\n]*>)+)@> ", bash(folder, lines, typed))
    words = [re.findall(r"<([^<>]*)>", line) for line in found]
    completed = {line: " ".join(each) for line, each in zip(LINES, words, strict=True)}
    assert {line: text for line, text in completed.items() if not text.endswith(LINES[line])} == {}


@pytest.mark.parametrize(
    ("shell", "files"),
    [
        ("bash", ["share/bash-completion/completions/" + each for each in PROGRAMS]),
        ("zsh", ["share/tfdeploy/completion.zsh"]),
        ("fish", [f"config/fish/completions/{each}.fish" for each in PROGRAMS]),
    ],
)
def test_what_is_installed_is_what_is_printed(command: Command, shell: str, files: list[str]) -> None:
    """In the folders of the user, for both programs; a second time too, and never over a file of others."""
    env = {
        "XDG_DATA_HOME": str(command.directory / "share"),
        "XDG_CONFIG_HOME": str(command.directory / "config"),
    }
    printed = command("completion", shell, env=env).out
    for _ in range(2):
        assert command("completion", shell, "--install", env=env).code == 0
    texts = [command.read(each).removeprefix("# made by tfdeploy\n") for each in files]
    assert "\n".join(texts) == printed
    assert all(f"_{each.replace('-', '_').upper()}_COMPLETE={shell}_complete" in printed for each in PROGRAMS)
    command.write(files[0], "mine")
    done = command("completion", shell, "--install", env=env)
    assert (done.code, "TFD753" in done.err, command.read(files[0])) == (2, True, "mine")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_what_is_typed(folder: Path, command: Command) -> None:
    """In a real fish, which is asked what it would offer after some lines."""
    (folder / "completion.fish").write_text(command("completion", "fish").out)
    lines = {
        "tfdeploy che": "check",
        "tfdeploy check dig": "digits.tfdeploy",
        "tfdeploy check digits.tfdeploy --set update.mod": "update.mode=",
        "tfdeploy why digits.tfdeploy logits/k": "logits/kernel",
        "compile-and-run dig": "digits.tfdeploy",
    }
    asked = "; echo @; ".join(f"complete -C '{line}'" for line in lines)
    done = shell(folder, "fish", "--no-config", "--command", f"source completion.fish; {asked}")
    offered = [[line.split("\t")[0] for line in part.split("\n")] for part in done.split("@\n")]
    assert {
        line: each for (line, each), all_ in zip(lines.items(), offered, strict=True) if each not in all_
    } == {}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_takes_what_is_printed(folder: Path, command: Command) -> None:
    """A real zsh reads it, and has a function for each of the two programs afterwards."""
    (folder / "completion.zsh").write_text(command("completion", "zsh").out)
    start = "autoload -Uz compinit; compinit -u -D; source ./completion.zsh; "
    found = shell(folder, "zsh", "-f", "-c", start + "print -l ${(k)_comps[(I)tfdeploy|compile-and-run]}")
    assert sorted(found.split()) == ["compile-and-run", "tfdeploy"]


def shell(folder: Path, *command: str) -> str:
    """Run a shell in `folder`, which finds the programs of this environment, and return what it prints."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "TERM": "dumb",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def bash(folder: Path, start: list[str], typed: list[str]) -> str:
    """Start bash in `folder`, type the lines, and return what the terminal shows."""
    (folder / ".bashrc").write_text("\n".join(["PS1='@> '", *start, ""]))
    parent, child = pty.openpty()
    tty.setraw(child)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "TERM": "dumb",
        "COLUMNS": "1000",
        "INPUTRC": os.devnull,
    }
    command = ["bash", "--noprofile", "--rcfile", str(folder / ".bashrc"), "-i"]
    with subprocess.Popen(
        command, cwd=folder, stdin=child, stdout=child, stderr=child, env=environment, start_new_session=True
    ) as process:
        os.close(child)
        shown = b""
        for line in [*typed, "exit\n"]:
            shown += _read_until(parent, b"@> ")
            os.write(parent, line.encode())
        process.wait(60)
    shown += os.read(parent, 1 << 16)
    os.close(parent)
    return shown.decode().replace("\r", "\n")


def _read_until(descriptor: int, words: bytes) -> bytes:
    """Read a terminal until what it shows ends with `words`."""
    found = b""
    while not found.endswith(words):
        found += os.read(descriptor, 4096)
    return found

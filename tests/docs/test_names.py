"""Options and files that the texts of the documentation name are those that there are."""

import re
from functools import cache
from pathlib import Path

import click
import pytest

from tests.docs.pages import DOCS, ROOT
from tfdeploy.cli.group import COMMANDS, load
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.files import GRAPH_FILES

PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", *sorted((ROOT / "tfdeploy/pages").glob("*.md"))]
APART = re.compile(r"^`{3,}[^\n]*\n.*?^`{3,}$|<!--.*?-->", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
OPTION = re.compile(r"(?:^|(?<=\s))(--[a-z][a-z-]*)(?![\w-])")


@cache
def options_of(command: str) -> frozenset[str]:
    """Return the options of a command."""
    found = load(command)
    named = [each for each in found.params if isinstance(each, click.Option)]
    return frozenset({"--help", "-h"}.union(*((*each.opts, *each.secondary_opts) for each in named)))


EVERY = frozenset({"--version"}).union(*map(options_of, COMMANDS))


def command_of(span: str) -> str | None:
    """Return the command that a span of code begins with or is."""
    words = span.split()
    if words[:1] == ["tfdeploy"]:
        words = words[1:]
    return words[0] if words and words[0] in COMMANDS else None


def wrong_options(page: str) -> list[str]:
    """Return the options in a text that the commands of their section do not have."""
    wrong = []
    for section in re.split(r"^#+ ", page, flags=re.MULTILINE):
        spans = [" ".join(each.split()) for each in SPAN.findall(APART.sub("", section))]
        lines = re.findall(r"^\$? ?((?:tfdeploy|compile-and-run) .*)$", section, re.MULTILINE)
        named = {name for name in map(command_of, (*spans, *lines)) if name is not None}
        beside = frozenset[str]().union(*map(options_of, named)) or EVERY
        for span in spans:
            own = command_of(span)
            if own is None and not span.startswith("--"):
                continue  # it is no command of ours
            known = beside if own is None else options_of(own)
            wrong += [f"{span}: {option}" for option in OPTION.findall(span) if option not in known]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_options_are_those_of_the_commands(page: Path) -> None:
    """Each option is one of the command that it is written with, or of a command of its section."""
    assert wrong_options(page.read_text(encoding="utf-8")) == []


RUN = RunDirectory(Path())
FILE = re.compile(
    r"(?!\.\w)[\w./-]*[\w-]\.(?:json|jsonl|keras|tfdeploy|pb|html|dot|py|toml|ya?ml|npz|csv|h5|tfrecord|txt|svg|vsix)"
    r"|[\w.-]+/(?:[\w.-]+/)*"
)
WRITTEN = {
    *(
        file.name
        for name in vars(RunDirectory)
        if name[0] != "_" and isinstance(file := getattr(RUN, name), Path)
    ),
    *GRAPH_FILES,
    RUN.store.directory.name,
    RUN.store.best.name,
    f"{RUN.store.prefix('STEP').name}.json",
    "trace.json",  # of a profile
    "sweep.json",
}
"""The files of a run directory and of a compiled graph, which the code names."""

ANY = re.compile(r"(?:NAME|digits)\.(?:tfdeploy|profile\.json)")
OF_OTHERS = {"model_deploy.py", "train_image_classifier.py", "src"}


def unknown_files(page: Path) -> list[str]:
    """Return the files that a page names, and that neither exist nor are written by a run or on the page."""
    text = page.read_text(encoding="utf-8")
    shown = "".join(APART.findall(text))
    beside = {*(ROOT / "tfdeploy/schemas").iterdir(), *(ROOT / "examples").rglob("*.md")}
    names = {each.name for each in beside} | {
        name
        for each in beside
        if each.suffix == ".md"
        for name in re.findall(r"[\w.-]+", each.read_text(encoding="utf-8"))
    }
    return [
        each
        for each in SPAN.findall(APART.sub("", text))
        if FILE.fullmatch(each)
        and ".." not in each
        and not (ROOT / each).exists()
        and not (page.parent / each).exists()
        and Path(each).name not in WRITTEN | OF_OTHERS | names
        and Path(each).name not in re.findall(r"[\w.-]+", shown)
        and not ANY.fullmatch(each)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_files_are_those_that_there_are(page: Path) -> None:
    """Each is in the project, is shown on the page, or is one that a run writes."""
    assert unknown_files(page) == []


def test_wrong_names_are_found(tmp_path: Path) -> None:
    """The other tests can fail."""
    page = tmp_path / "page.md"
    text = "# One\n`tfdeploy plan a --jsno`, and `--quick` of `plan` in `runz/history.json`\n# 2\n`--quick`\n"
    page.write_text(text)
    assert wrong_options(text) == ["tfdeploy plan a --jsno: --jsno", "--quick: --quick"]
    assert unknown_files(page) == ["runz/history.json"]

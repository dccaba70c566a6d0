"""Command lines in the docs are those that the commands take."""

import re

import click
import pytest

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.sessions import is_operator, shell_words
from tfdeploy.cli.group import load, tfdeploy

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def command_lines(block: Block) -> list[str]:
    """Return the commands of a block: its lines, those after `$`, or those of `run:` in a workflow."""
    text = block.text.replace("\\\n", " ")
    if block.kind == "console":
        return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    if block.kind == "yaml":
        return re.findall(r"^\s*- run: (.*)$", text, re.MULTILINE)
    return text.splitlines()


def parse(line: str) -> None:
    """Let the command of a line read its arguments; raises what click raises for wrong ones."""
    words = shell_words(line)
    words = words[: next((at for at, word in enumerate(words) if is_operator(word)), len(words))]
    if words[0] == "make":
        assert {word for word in words[1:] if "=" not in word} <= TARGETS
    elif words[0] == "compile-and-run":
        load("compile-and-run").make_context("compile-and-run", words[1:])
    elif words[0] == "tfdeploy" and words[1] != "--version":
        with click.Context(tfdeploy) as context:
            name, command, rest = tfdeploy.resolve_command(context, words[1:])
            command.make_context(name, list(rest))


@pytest.mark.parametrize("block", blocks("sh", "console", "yaml"), ids=lambda each: each.where)
def test_command_lines_are_valid(block: Block) -> None:
    """Commands, options and arguments exist; targets of make too."""
    for line in command_lines(block):
        parse(line)


def test_a_wrong_command_line_is_found() -> None:
    """The other test can fail."""
    with pytest.raises(click.NoSuchOption):
        parse("tfdeploy plan spec.tfdeploy --jsno")
    with pytest.raises(click.UsageError, match="there is no command 'paln'"):
        parse("tfdeploy paln spec.tfdeploy")
    with pytest.raises(AssertionError):
        parse("make rnu")


def test_every_block_says_what_it_is() -> None:
    """A block without a kind would be tested by nothing."""
    assert [each.where for each in blocks("")] == []

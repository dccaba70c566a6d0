"""Every spec in the docs is what the page says: right, or wrong in the way that is meant."""

import shutil
from pathlib import Path

import pytest

import grammar
from compiler.graph.build import compile_graph
from compiler.pipeline import make_plan
from dsl.source import Source
from grammar.format import format_text
from tests.docs.frames import framed, is_whole
from tests.docs.pages import DOCS, Block, blocks, blocks_of
from tests.docs.sessions import DIGITS

SPECS = blocks("tfdeploy")
RIGHT = [each for each in SPECS if not each.codes]
STYLED = [each for each in RIGHT if each.page != "reference/syntax.md" and each.title != "untidy.tfdeploy"]
COMPILED = [each for each in RIGHT if each.title is None and ("loss = " in each.text or not is_whole(each))]


def prepare(block: Block, folder: Path) -> Path:
    """Write a spec into `folder`, with the other files of its page, and return its path."""
    for each in blocks_of(DOCS / block.page):
        if each.title is not None and each.kind in {"python", "csv", "tfdeploy"}:
            (folder / each.title).write_text(each.text)
    for name in ("train.csv", "test.csv"):
        shutil.copy(DIGITS / name, folder / name)
    path = folder / (block.title or "spec.tfdeploy")
    path.write_text(block.text if is_whole(block) else framed(block.text))
    return path


@pytest.mark.parametrize("block", SPECS, ids=lambda each: each.where)
def test_a_spec_is_right_or_wrong_as_its_page_says(block: Block, tmp_path: Path) -> None:
    """Nothing is reported but what the page means to show; a fragment may leave devices unused."""
    found = grammar.read(prepare(block, tmp_path), allow_python=True).diagnostics
    counted = [each for each in found if each.is_error or is_whole(block)]
    assert [each.code for each in counted] == block.codes


@pytest.mark.parametrize("block", STYLED, ids=lambda each: each.where)
def test_a_spec_that_is_right_is_in_the_one_style(block: Block) -> None:
    """Readers copy what `fmt` would not change."""
    assert format_text(Source(block.where, block.text)) == block.text


@pytest.mark.slow
@pytest.mark.family(every=8)
@pytest.mark.parametrize("block", COMPILED, ids=lambda each: each.where)
def test_a_spec_that_is_right_compiles(block: Block, tmp_path: Path) -> None:
    """Its graph is built on emulated devices, where it has a loss."""
    spec = grammar.load(prepare(block, tmp_path), allow_python=True)
    compiled = compile_graph(make_plan(spec, emulate=True), base=str(tmp_path))
    assert compiled.clones

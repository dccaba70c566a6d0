"""Every example of the page on data is read as it stands there."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

import grammar
from tests.folders import ROOT
from tfdeploy.data import SOURCES, TRANSFORMS

PAGE = ROOT / "docs" / "how-to" / "data.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
INPUT = re.compile(r"`(\w+) = input\((\w+), \[([^\]]*)\]\)`")


@frozen
class Section:
    """A part of the page under one heading: its text, and the files that a part before it gives."""

    title: str
    text: str
    shared: str


def sections() -> list[Section]:
    """Return the sections of the page that show a spec."""
    parts = re.split(r"^(#+ .*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    titled = list(zip(parts[::2], parts[1::2], strict=True))
    shared = next(text for title, text in titled if title == "## Transforms")
    return [Section(title.lstrip("# "), text, shared) for title, text in titled if "```tfdeploy" in text]


def prepare(text: str, folder: Path) -> None:
    """Write the files with a title, and run the Python without one, in `folder`, which is the current one."""
    for kind, title, content in BLOCK.findall(text):
        if title:
            (folder / title).write_text(content)
        elif kind == "python":
            script = folder / "make.py"
            script.write_text(content)
            runpy.run_path(str(script))


@pytest.mark.family(every=8)
@pytest.mark.parametrize("section", sections(), ids=lambda each: each.title)
def test_an_example_of_the_page_is_read(
    reader: Any, section: Section, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spec is valid, its data feeds the inputs that the page names, and every pass gives its examples."""
    if "from datasets import" in section.text:
        pytest.importorskip("datasets")  # which is no part of the tools of the tests
    monkeypatch.chdir(reader.base)
    prepare(section.shared, reader.base)
    prepare(section.text, reader.base)
    (data,) = [content for kind, _, content in BLOCK.findall(section.text) if kind == "tfdeploy"]
    inputs = INPUT.findall(section.text)
    lines = [f"  {name} = input({dtype}, [{shape}])" for name, dtype, shape in inputs]
    layers = [f"  y_{name} = {name} -> Identity()" for name, _, _ in inputs]
    model = "\n".join(['tfdeploy = 1\nmodel "m" {', *lines, *layers, "}"])
    path = reader.base / "spec.tfdeploy"
    path.write_text(f"{model}\n{data}")
    spec = grammar.load(path, allow_python=True)
    wanted = {
        name: (
            dtype,
            tuple(None if size.strip() == "none" else int(size) for size in shape.split(",") if size),
        )
        for name, dtype, shape in inputs
    }
    for split in (spec.data.train, spec.data.validation, spec.data.test):
        if split is None:
            continue
        stream = reader.open(split.source, *split.transforms, wanted=wanted, seed=1)
        stream.check()
        batches = reader.batches(stream, 3)
        for name, (dtype, shape) in wanted.items():
            found = [batch[name] for batch in batches]
            sizes = [size for each in found for size in zip(each.shape[1:], shape, strict=True)]
            assert {each.dtype.name for each in found} == {dtype}
            assert all(wanted_size in (None, size) for size, wanted_size in sizes)
            assert sum(map(len, found)) == (stream.size or 50)


def test_the_page_has_every_source_and_transform() -> None:
    """No source or transform of the language is left out of the page."""
    titles = " ".join(each.title for each in sections()).split()
    assert set(SOURCES) | set(TRANSFORMS) <= set(titles)

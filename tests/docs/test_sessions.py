"""Pages with commands or Python are followed from top to bottom, and show what a reader would see."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, TESTED_ELSEWHERE, Block, blocks_of, name_of, page_files, replace
from tests.docs.sessions import Session, matches, plain

SESSIONS = [
    path
    for path in page_files()
    if name_of(path) not in TESTED_ELSEWHERE
    and any(each.kind in {"console", "python"} for each in blocks_of(path))
]


@pytest.mark.slow
@pytest.mark.parametrize("path", SESSIONS, ids=name_of)
def test_a_page_shows_what_its_commands_print(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Every command and every block of Python works, and prints what stands below it, but for figures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    session = Session(tmp_path)
    session.prepare()
    different: dict[Block, str] = {}
    before: Block | None = None
    for block in blocks_of(path):
        shown = block.text if block.remark == "apart" else session.follow(block)
        if block.kind == "text" and before is not None and before.kind == "python":
            printed = session.printed()
            shown = shown if matches(shown.splitlines(), printed.splitlines()) else printed
        if shown != block.text:
            different[block] = shown
        before = block
    if request.config.getoption("--update-golden"):
        replace(path, different)
    assert {block.where: shown for block, shown in different.items()} == {
        block.where: block.text for block in different
    }


def test_there_are_sessions() -> None:
    """The pages that the other test is about are found."""
    assert {"tutorial.md", "how-to/python.md"} <= {path.relative_to(DOCS).as_posix() for path in SESSIONS}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step  10/300  loss 2.2303  5,121 examples/s", "step 10/300 loss # # examples/s"),
        ("cpu[0]  305   18.8 KiB     .", "cpu[0] # # ."),
        (" --> digits.tfdeploy:7:44", "--> digits.tfdeploy:7:44"),
    ],
)
def test_figures_are_left_out_of_the_comparison_and_places_are_not(line: str, expected: str) -> None:
    """What depends on the machine does not count; where an error is does."""
    assert plain(line) == expected


def test_a_difference_in_words_counts() -> None:
    """Words that are not those of the page are found, with or without lines left out."""
    assert not matches(["finished at step 10"], ["interrupted at step 10"])
    assert matches(["a", "...", "z 1.5 s"], ["a", "b", "c", "z 2.25 s"])
    assert not matches(["a", "...", "y"], ["a", "b", "z"])

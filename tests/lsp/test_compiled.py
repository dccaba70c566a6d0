"""The code of methods that attrs makes is kept from one start of the server to the next."""

import ast
import builtins
import marshal
import os
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

import attr._make
import attrs
import pytest

from tfdeploy.cli.commands import lsp as compiled


def point() -> type:
    """Return a new class with methods of attrs, each time of the same text."""

    @attrs.define
    class Point:
        x: int

    return Point


def place() -> type:
    """Return another class."""

    @attrs.define
    class Place:
        y: int

    return Place


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the user's cache folder meanwhile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every text is added that is compiled."""
    found: list[str] = []

    def compiling(text: str, filename: str, mode: str, **named: int) -> CodeType:
        found.append(text)
        return builtins.compile(text, filename, mode, **named)

    monkeypatch.setattr(compiled, "compile", compiling, raising=False)
    return found


def test_what_was_compiled_before_is_not_compiled_again(cache_home: Path, texts: list[str]) -> None:
    """The methods of the second time are those of the first, and another class has its own."""
    del cache_home
    for make, expected in ((point, 1), (point, 1), (place, 2), (place, 2)):
        with compiled.compiled_before():
            made = make()
        assert (len(texts), repr(made(3)), made(3) == made(3)) == (expected, repr(made(3)), True)
        assert repr(made(3)).endswith("(x=3)" if make is point else "(y=3)")


def test_attrs_is_left_as_it_was(cache_home: Path, texts: list[str]) -> None:
    """After the block, and after an error in it, attrs compiles by itself."""
    del cache_home
    with pytest.raises(KeyError), compiled.compiled_before():
        raise KeyError
    point()
    assert texts == []


def test_what_is_compiled_in_another_way_is_compiled(cache_home: Path, texts: list[str]) -> None:
    """If attrs should use more arguments one day, it gets what it asks for, and nothing is kept."""
    with compiled.compiled_before():
        made = vars(attr._make)["compile"]("a", "f", "exec", flags=ast.PyCF_ONLY_AST)
    assert isinstance(made, ast.Module)
    assert texts == ["a"]
    assert list(cache_home.glob("*/*")) == []


def damages(whole: bytes) -> dict[str, bytes]:
    """Return the content of files that are not what the program has written."""
    return {
        "empty": b"",
        "cut off": whole[: len(whole) // 2],
        "from another version of Python": b"0000" + whole[len(MAGIC_NUMBER) :],
        "something else": MAGIC_NUMBER + marshal.dumps([1]),
    }


def test_a_damaged_file_is_made_again(cache_home: Path, texts: list[str]) -> None:
    """Whatever is in the file, the class is right and the file is whole afterwards."""
    with compiled.compiled_before():
        point()
    (file,) = (cache_home / "tfdeploy").iterdir()
    whole = file.read_bytes()
    for number, (what, content) in enumerate(damages(whole).items(), 2):
        file.write_bytes(content)
        with compiled.compiled_before():
            assert point()(3).x == 3
        assert (len(texts), file.read_bytes() == whole) == (number, True), what
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_no_cache_folder_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    """Without a folder that can be written to, everything is compiled, and nothing is said."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with compiled.compiled_before():
        assert point()(3).x == 3
    assert len(texts) == 1


@pytest.mark.full
def test_the_second_start_of_the_server_compiles_nothing(tmp_path: Path) -> None:
    """The first one keeps the code of all types of the protocol; the second finds all of it there."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "tfdeploy", "lsp"]
    files = []
    for _ in range(2):
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True)
        (file,) = (tmp_path / "tfdeploy").glob("protocol-*")
        files.append((file.stat().st_ino, file.stat().st_mtime_ns))
    assert len(marshal.loads(file.read_bytes().removeprefix(MAGIC_NUMBER))) > 500  # noqa: S302 it is ours
    assert files[0] == files[1], "nothing was added"

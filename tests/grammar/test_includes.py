"""Specs of several files."""

from pathlib import Path

import pytest

import grammar
from dsl.formats.render import render

MODEL = 'model "m" {\n  x = input(float32, [1])\n  y = x -> Dense(1)\n  output = y\n}\n'


def write(directory: Path, **files: str) -> Path:
    """Write specs into `directory`; return the path of the one called `main`."""
    for name, text in files.items():
        path = directory / f"{name.replace('__', '/')}.tfdeploy"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return directory / "main.tfdeploy"


def found(path: Path) -> list[tuple[str, str, int]]:
    """Return the code, file name and line of each error."""
    return [
        (each.code, Path(each.span.source.name).name, each.span.begin.line)
        for each in grammar.read(path).diagnostics
    ]


def test_blocks_of_included_files_belong_to_the_spec(tmp_path: Path) -> None:
    """Files are found beside the one that includes them, also in a directory below, and each is read once."""
    main = write(
        tmp_path,
        main='tfdeploy = 1\ninclude = ["a.tfdeploy", "below/b.tfdeploy"]\n' + MODEL,
        a='include = ["below/b.tfdeploy"]\nclones { count = n }\n',
        below__b="tfdeploy = 1\nlet { n = 3 }\n",
    )
    reading = grammar.read(main)
    assert reading.spec.clones.count == 3
    assert [Path(source.name).name for source in reading.sources] == [
        "main.tfdeploy",
        "a.tfdeploy",
        "b.tfdeploy",
    ]


def test_a_file_by_its_absolute_path(tmp_path: Path) -> None:
    """An absolute path may lead anywhere."""
    other = tmp_path / "other"
    write(tmp_path, other__a="clones { count = 3 }\n")
    main = write(tmp_path, main=f'tfdeploy = 1\ninclude = ["{other}/a.tfdeploy"]\n{MODEL}')
    assert grammar.load(main).clones.count == 3


def test_paths_may_not_leave_the_tree(tmp_path: Path) -> None:
    """A relative path that leads out is refused, however it is written."""
    for path in ("../a.tfdeploy", "b/../../a.tfdeploy", ".."):
        main = write(tmp_path, main=f'tfdeploy = 1\ninclude = ["{path}"]\n{MODEL}')
        assert found(main) == [("TFD211", "main.tfdeploy", 2)]


@pytest.mark.parametrize(
    ("more", "files", "errors"),
    [
        pytest.param(
            MODEL,
            {"a": 'include = ["b.tfdeploy"]\n', "b": '\n\ninclude = ["main.tfdeploy"]\n'},
            [("TFD210", "b.tfdeploy", 3)],
            id="a circle, where it closes",
        ),
        pytest.param(
            f"clones {{ cuont = 1 }}\n{MODEL}",
            {"a": "train { keep = 0 }\n"},
            [("TFD202", "main.tfdeploy", 3), ("TFD305", "a.tfdeploy", 1)],
            id="errors of the spec come first, then those of what it includes",
        ),
        pytest.param(
            f"clones {{ count = n }}\n{MODEL.replace('Dense(1)', 'block()')}",
            {},
            [("TFD190", "main.tfdeploy", 2)],
            id="what a missing file may have defined is not complained of",
        ),
    ],
)
def test_errors_stand_where_they_are(
    tmp_path: Path, more: str, files: dict[str, str], errors: list[tuple[str, str, int]]
) -> None:
    """In the file and the line that has the fault."""
    assert found(write(tmp_path, main=f'tfdeploy = 1\ninclude = ["a.tfdeploy"]\n{more}', **files)) == errors


def test_no_line_of_another_file_is_shown(tmp_path: Path) -> None:
    """A file that is no spec by its real name is not read: by an absolute path, beside it, or by a link."""
    secret = tmp_path / "elsewhere" / "secrets"
    secret.parent.mkdir()
    secret.write_text('password = "s3cret"\n')
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "link.tfdeploy").symlink_to(secret)
    (folder / "inside").write_text('password = "s3cret"\n')
    for written in (str(secret), "link.tfdeploy", "inside"):
        main = write(folder, main=f'tfdeploy = 1\ninclude = ["{written}"]\n{MODEL}')
        assert found(main) == [("TFD194", "main.tfdeploy", 2)]
        assert "s3cret" not in render(grammar.read(main).diagnostics)


def test_files_that_are_too_deep(tmp_path: Path) -> None:
    """Fifty files below the spec are read, in each of which faults are found; the next is an error."""

    def chain(length: int) -> list[tuple[str, str, int]]:
        files = {f"f{at}": f'include = ["f{at + 1}.tfdeploy"]\n' for at in range(length)}
        files[f"f{length}"] = "clones { count = nothing }\n"
        main = write(tmp_path, main='tfdeploy = 1\ninclude = ["f0.tfdeploy"]\n' + MODEL, **files)
        return found(main)

    assert chain(49) == [("TFD401", "f49.tfdeploy", 1)]
    assert chain(50) == [("TFD111", "f49.tfdeploy", 1)]
    assert chain(60) == [("TFD111", "f49.tfdeploy", 1)]


def test_an_included_folder_and_an_address(tmp_path: Path) -> None:
    """Neither is a file, whatever its name ends in."""
    (tmp_path / "folder.tfdeploy").mkdir()
    both = 'include = ["folder.tfdeploy", "gs://bucket/a.tfdeploy"]\n'
    main = write(tmp_path, main=f"tfdeploy = 1\n{both}{MODEL}")
    assert found(main) == [("TFD191", "main.tfdeploy", 2), ("TFD308", "main.tfdeploy", 2)]


def test_included_files_with_signs_of_patterns(tmp_path: Path) -> None:
    """A name is a name."""
    for name in ("a[1]", "b*", "c?", "d{1}", "e\\\\f", "~", "$HOME"):
        main = write(
            tmp_path,
            main=f'tfdeploy = 1\ninclude = ["{name}.tfdeploy"]\n{MODEL}',
            **{name.replace("\\\\", "\\"): "clones { count = 3 }\n", "a1": "clones { count = 4 }\n"},
        )
        assert grammar.load(main).clones.count == 3

"""Files are written whole or not at all, with the permissions that they had, and through no strange link."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dsl.files.atomic import (
    create_private_file,
    link_target,
    remove_partial,
    replace_file,
    replacing,
    temporary_name,
)


@pytest.mark.parametrize("name", ["result.json", "n" * 255, "\N{FACE WITH TEARS OF JOY}" * 63])
def test_a_file_is_replaced(tmp_path: Path, name: str) -> None:
    """The new content takes the place of the old, and nothing is left beside it."""
    path = tmp_path / name
    replace_file(path, b"old\n")
    replace_file(path, b"new\r\n")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {name: b"new\r\n"}


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    """What raises inside leaves the file as it was, and removes what was half written."""
    path = tmp_path / "model.keras"
    replace_file(path, b"old")

    def write() -> None:
        with replacing(path) as beside:
            beside.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"model.keras": "old"}


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    """A process killed in the middle of a write leaves the old file, and a part that is known as such."""
    path = tmp_path / "result.json"
    replace_file(path, b"old")
    code = (
        "import os, sys, signal; from pathlib import Path\n"
        "from dsl.files.atomic import replacing\n"
        "with replacing(Path(sys.argv[1])) as beside:\n"
        "    beside.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    kept = (".partial-notes.txt", ".partial-0123abcd-notes.txt", ".partial-")
    for name in (*kept, ".partial-result.json"):  # the last as versions before named them
        (tmp_path / name).touch()
    for name in (".partial-0123abcd-result.json.folder", ".partial-0123abcd-notes.txt.folder"):
        (tmp_path / name / "inside").mkdir(parents=True)
    kept = (*kept, ".partial-0123abcd-notes.txt.folder")
    remove_partial(tmp_path, lambda name: name == "result.json")
    assert {each.name for each in tmp_path.iterdir()} == {"result.json", *kept}


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes first, then the name, then the folder that has the name: a power cut leaves old or new."""
    done: list[str] = []

    def fsync(descriptor: int) -> None:
        done.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}")  # noqa: PTH115 a number, no path

    def replace(self: Path, target: Path) -> Path:
        done.append(f"name {target}")
        os.replace(self, target)  # noqa: PTH105 the method is what is replaced
        return target

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    path = tmp_path / "result.json"
    with replacing(path) as beside:
        beside.write_text("text")
    assert done == [f"sync {beside}", f"name {path}", f"sync {tmp_path}"]
    assert path.read_text() == "text"


def test_what_is_written_meanwhile_is_nobody_elses_file(tmp_path: Path) -> None:
    """Two writers of one file have a file of their own each, so neither finds the other's half."""
    path = tmp_path / "result.json"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]


@pytest.fixture
def narrow_umask() -> Iterator[None]:
    """Let new files be readable by this user alone, which no permission of an earlier file may depend on."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("narrow_umask")
@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o755])
def test_permissions_are_kept(tmp_path: Path, permissions: int) -> None:
    """The new file allows what the old one did, while it is written and afterwards."""
    path = tmp_path / "spec.tfdeploy"
    path.write_text("old")
    path.chmod(permissions)
    with replacing(path) as beside:
        assert stat.S_IMODE(beside.stat().st_mode) == permissions
        beside.write_text("new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", permissions)


@pytest.mark.usefixtures("narrow_umask")
def test_a_new_file_has_the_permissions_of_the_user(tmp_path: Path) -> None:
    """A file that was not there, or was only a link, allows what the umask allows."""
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o666)
    (tmp_path / "link").symlink_to("open")
    for name in ("new", "link"):
        replace_file(tmp_path / name, b"x")
        assert stat.S_IMODE((tmp_path / name).lstat().st_mode) == 0o600
    assert (tmp_path / "open").read_bytes() == b"", "the link was replaced, not followed"


def test_a_private_file_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first byte, only its user can read it; a file that is there is kept, with none beside it."""
    seen: list[int] = []
    write = Path.write_bytes

    def watched(self: Path, content: bytes) -> int:
        seen.append(stat.S_IMODE(self.stat().st_mode))
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", watched)
    before = os.umask(0)
    try:
        for content in (b"first", b"second"):
            create_private_file(tmp_path / "secret", content)
    finally:
        os.umask(before)
    assert seen == [0o600, 0o600]
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("secret", b"first")]
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


@pytest.mark.parametrize("make", [replace_file, create_private_file])
def test_a_temporary_name_that_is_taken_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, bytes], None]
) -> None:
    """If somebody guesses the temporary name and puts a link there, the file behind the link is untouched."""
    victim, path = tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("mine")
    monkeypatch.setattr("dsl.files.atomic.secrets.token_hex", lambda _: "00000000")
    temporary_name(path).symlink_to(victim)
    with pytest.raises(FileExistsError):
        make(path, b"text")
    assert (victim.read_text(), path.exists()) == ("mine", False)
    assert temporary_name(path).is_symlink(), "what is not ours is not removed"


def test_links_of_the_user_are_kept(tmp_path: Path) -> None:
    """What is written is the file behind all links; a file, or nothing, is written itself."""
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("real")
    assert link_target(tmp_path / "first") == tmp_path.resolve() / "real"
    assert link_target(tmp_path / "real") == tmp_path / "real"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """They lead to no file."""
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("first")
    with pytest.raises(OSError, match="symbolic links") as caught:
        link_target(tmp_path / "first")
    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize(
    ("permissions", "is_mine", "followed"),
    [(0o1777, False, False), (0o1777, True, True), (0o777, False, True), (0o1775, False, True)],
)
def test_links_of_others_in_shared_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, permissions: int, is_mine: bool, followed: bool
) -> None:
    """In a folder such as /tmp, a link of another user may lead to any file of this user."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(permissions)
    link = folder / "page.html"
    link.symlink_to(tmp_path / "precious")
    if not is_mine:
        monkeypatch.setattr(os, "geteuid", lambda: link.lstat().st_uid + 1)
        mine = Path.stat

        def of_root(self: Path, **options: bool) -> os.stat_result:
            found = mine(self, **options)
            return os.stat_result([*found[:4], found.st_uid + 2, *found[5:10]]) if self == folder else found

        monkeypatch.setattr(Path, "stat", of_root)
    if followed:
        assert link_target(link) == tmp_path.resolve() / "precious"
    else:
        with pytest.raises(PermissionError, match="a link of another user in a shared folder"):
            link_target(link)

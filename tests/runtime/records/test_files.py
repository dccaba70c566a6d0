"""What goes wrong when a file of a run is written is said; see also `tests/dsl/files/test_atomic.py`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dsl.diagnostics import RunError
from tests.support import refusal
from tfdeploy.runtime.records.files import replacing, write_atomically


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """An error of the operating system becomes a diagnostic with the path, and with advice."""
    path = tmp_path / "result.json"
    with pytest.raises(RunError) as caught, replacing(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    found = caught.value.diagnostic
    assert (found.code, found.message) == ("TFD733", f"`{path}` cannot be written: no space left on device")
    assert found.help == "make room on the disk and run again: the run continues from its last checkpoint"


def test_links_are_followed_on_request(tmp_path: Path) -> None:
    """A link that the user names stays one; a link among the files of a run is replaced by a file."""
    for follow in (True, False):
        (tmp_path / "real").write_text("old")
        link = tmp_path / "link"
        link.unlink(missing_ok=True)
        link.symlink_to("real")
        write_atomically(link, "new", follow=follow)
        assert (link.read_text(), link.is_symlink()) == ("new", follow)
        assert (tmp_path / "real").read_text() == ("new" if follow else "old")


def test_links_in_a_circle_are_said(tmp_path: Path) -> None:
    """They end in a diagnostic as every other fault does."""
    (tmp_path / "page.html").symlink_to("page.html")
    found = refusal(write_atomically, tmp_path / "page.html", "text", follow=True)
    assert found.message.endswith("too many levels of symbolic links")

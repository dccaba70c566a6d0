"""Code lenses: commands of `tfdeploy` above a spec, which the server runs as processes of their own."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, field
from lsprotocol import types

from dsl import syntax
from dsl.files.regular import read_text
from tfdeploy.lsp.settings import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfdeploy.lsp.documents import Document

LONGEST = 200_000
"""How many characters of the output of a command its result has at most; the last ones are kept."""


class NotSavedError(ValueError):
    """Raised if the file of a document is not what the editor shows."""


def lenses(document: Document) -> list[types.CodeLens]:
    """Return the commands for a spec, above its model; nothing for a text that has none."""
    return [
        types.CodeLens(
            document.positions.span(model.header), types.Command(title, name, arguments=[document.uri])
        )
        for model in syntax.blocks_in(document.tree.items, "model")[:1]
        for name, (title, _) in COMMANDS.items()
    ]


@define
class Runner:
    """Runs commands, and ends those that still run when the server ends."""

    _running: set[asyncio.subprocess.Process] = field(factory=set)

    async def run(
        self, name: str, document: Document, options: tuple[str, ...], tell: Callable[[str], None]
    ) -> dict[str, object]:
        """Run a command on a document.

        Returns:
            The exit code, as `code`, and the `output`.

        Raises:
            NotSavedError: If the document has changes that are not in its file.
        """
        _check_saved(document)
        words = (*COMMANDS[name][1], document.path, "--color=never", *options)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tfdeploy",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._running.add(process)
        output = ""
        try:
            assert process.stdout is not None
            while line := await process.stdout.readline():
                text = line.decode("utf-8", "replace")
                tell(text.rstrip("\n"))
                output = (output + text)[-LONGEST:]
            return {"code": await process.wait(), "output": output}
        finally:
            self._running.discard(process)

    def stop(self) -> None:
        """End the commands that still run; a training run writes a checkpoint first."""
        for process in self._running:
            with suppress(ProcessLookupError):
                process.terminate()


def _check_saved(document: Document) -> None:
    try:
        saved = read_text(document.path).removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise NotSavedError(f"{document.path} has to be saved first") from error
    if saved.replace("\r\n", "\n") != document.text.removeprefix("\ufeff").replace("\r\n", "\n"):
        raise NotSavedError(f"{document.path} has changes that are not saved")

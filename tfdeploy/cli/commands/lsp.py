"""`tfdeploy lsp`: the language server, for editors; what it needs of the protocol is compiled only once.

The package `lsprotocol` has a class for each of the 550 types of the protocol. Attrs writes the methods of
each class as text and compiles it, at every start, which takes a third of the processor time before the first
answer. The code is therefore kept in the user's cache folder, as Python keeps that of modules.

Attrs has no option for this. It calls Python's `compile` by its name in the module `attr._make`; meanwhile
another function has this name there. It finds the code by the whole text that would be compiled, so that it
is always the right one. (Methods for hashing have a number in their text that differs from process to
process; the types of the protocol have none.) If attrs calls something else one day, everything is compiled
as before, and `tests/lsp/test_compiled.py` fails.
"""

from __future__ import annotations

import gc
import hashlib
import marshal
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import Any

import click
from attrs import define, field

from dsl.files.atomic import replace_file
from dsl.files.regular import cache_file, read_regular
from tfdeploy.cli.common import Common
from tfdeploy.cli.options import common_options, flag
from tfdeploy.own_process import not_interruptible

CALLER = "attr._make"
"""The module of attrs that compiles the methods of classes."""


@define
class _Compiler:
    """Compiles as Python does, unless it has the code already."""

    known: dict[bytes, CodeType]
    used: dict[bytes, CodeType] = field(factory=dict, init=False)
    made: int = field(default=0, init=False)

    def __call__(self, text: str, filename: str, mode: str, *further: Any, **named: Any) -> Any:
        """Return the code of a text; the arguments are those of `compile`, of which attrs uses three."""
        if further or named:
            return compile(text, filename, mode, *further, **named)
        key = hashlib.sha256(f"{mode}\0{filename}\0{text}".encode()).digest()
        code = self.known.get(key)
        if code is None:
            code = compile(text, filename, mode)
            self.made += 1
        self.used[key] = code
        return code


@contextmanager
def compiled_before() -> Iterator[None]:
    """Let attrs, within the block, compile only what no earlier block has compiled."""
    path = cache_file(f"protocol-{sys.implementation.cache_tag}-{sys.flags.optimize}")
    compiler = _Compiler(_read(path))
    names = import_module(CALLER).__dict__
    names["compile"] = compiler
    try:
        yield
    finally:
        del names["compile"]
    if path is not None and compiler.made:
        _write(path, compiler.used)


def _read(path: Path | None) -> dict[bytes, CodeType]:
    """Return the code in a file; none if it is missing, damaged, or from another version of Python."""
    try:
        content = b"" if path is None else read_regular(path)
        found = marshal.loads(content.removeprefix(MAGIC_NUMBER)) if content.startswith(MAGIC_NUMBER) else {}  # noqa: S302 only the user writes there
    except (OSError, EOFError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, code: dict[bytes, CodeType]) -> None:
    """Replace the file; if that cannot be done, the next start has to compile again."""
    with suppress(OSError):
        replace_file(path, MAGIC_NUMBER + marshal.dumps(code))


@click.command()
@flag("--stdio", "Use standard input and output, which the server does anyway.")
@common_options
def command(common: Common, *, stdio: bool) -> int:
    """Serve editors over the Language Server Protocol, without TensorFlow.

    An editor starts this command and talks to it over standard input and output.
    """
    # What is imported stays for good, and looking for garbage in it takes a third of the time. The server
    # looks for garbage again when it has imported everything.
    gc.disable()
    with compiled_before():
        import lsprotocol.types  # noqa: F401 the server imports it too; here its classes are made
    from tfdeploy.lsp.requests import create_server
    from tfdeploy.lsp.settings import Settings

    del stdio
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    server = create_server(Settings(common.overrides, common.allow_python))
    # Whatever prints must not print between the messages. The thread that reads outlasts KeyboardInterrupt.
    with redirect_stdout(sys.stderr), not_interruptible():
        server.start_io(stdout=answers)
    return 0

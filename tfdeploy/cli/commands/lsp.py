"""`tfdeploy lsp`: the language server, for editors."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import redirect_stdout

import click

from tfdeploy.cli.common import Common
from tfdeploy.cli.options import common_options


@click.command()
@click.option("--stdio", is_flag=True, help="Use standard input and output, which the server does anyway.")
@common_options
def command(common: Common, *, stdio: bool) -> int:
    """Serve editors over the Language Server Protocol, without TensorFlow.

    An editor starts this command and talks to it over standard input and output.
    """
    # What is imported stays for good, and looking for garbage in it takes a third of the time. The server
    # looks for garbage again when it has imported everything.
    gc.disable()
    from tfdeploy.lsp.compiled import compiled_before

    with compiled_before():
        import lsprotocol.types  # noqa: F401 the server imports it too; here its classes are made
    from tfdeploy.lsp.requests import create_server
    from tfdeploy.lsp.settings import Settings

    del stdio
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    server = create_server(Settings(common.overrides, common.allow_python))
    with redirect_stdout(sys.stderr):  # whatever prints must not print between the messages
        server.start_io(stdout=answers)
    return 0

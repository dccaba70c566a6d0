"""How the server reads specs, and what it says of itself when it starts.

An editor waits for that, so nothing that reads specs is imported here.
"""

from __future__ import annotations

from attrs import frozen
from lsprotocol import types


@frozen
class Settings:
    """How specs are read."""

    overrides: tuple[tuple[str, str], ...] = ()
    allow_python: bool = False


COMPLETION_TRIGGERS = (".", "[", "(", ",", "=", ">", " ")
"""The characters after which an editor asks for completion without being told to."""

SIGNATURE_TRIGGERS = ("(", ",")
"""The characters after which an editor asks for the signature of a call."""

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.tfdeploy"
"""The kind of the action that applies all safe fixes, which an editor can ask for when it saves."""

TOKEN_TYPES = (
    "keyword", "property", "variable", "parameter", "function", "class",
    "enumMember", "string", "number", "operator", "comment", "namespace",
)  # fmt: skip
TOKEN_MODIFIERS = ("definition", "readonly")

COMMANDS = {
    "tfdeploy.plan": ("Plan", ("plan",)),
    "tfdeploy.run": ("Train", ("compile-and-run",)),
    "tfdeploy.verify": ("Verify", ("verify",)),
}
"""The commands of the protocol, each with its title and the words of the command line."""

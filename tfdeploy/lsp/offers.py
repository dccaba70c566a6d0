"""What the server says of itself when it starts.

An editor waits for this, so nothing that reads specs is imported here.
"""

from __future__ import annotations

from lsprotocol import types

COMPLETION_TRIGGERS = (".", "[", "(", ",", "=", ">", " ")
"""The characters after which an editor asks for completion without being told to."""

SIGNATURE_TRIGGERS = ("(", ",")
"""The characters after which an editor asks for the signature of a call."""

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.tfdeploy"
"""The kind of the action that applies all safe fixes, which an editor can ask for when it saves."""

TOKEN_TYPES = (
    "keyword",
    "property",
    "variable",
    "parameter",
    "function",
    "class",
    "enumMember",
    "string",
    "number",
    "operator",
    "comment",
    "namespace",
)
TOKEN_MODIFIERS = ("definition", "readonly")

COMMANDS = {
    "tfdeploy.plan": ("Plan", ("plan",)),
    "tfdeploy.run": ("Train", ("compile-and-run",)),
    "tfdeploy.verify": ("Verify", ("verify",)),
}
"""The commands of the protocol, each with its title and the words of the command line."""

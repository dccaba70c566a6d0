"""How the server reads specs."""

from __future__ import annotations

from attrs import frozen


@frozen
class Settings:
    """How specs are read.

    Attributes:
        overrides: Paths and values that replace those in the spec, as `--set` does.
        allow_python: Whether specs may load code with `python(...)`.
    """

    overrides: tuple[tuple[str, str], ...] = ()
    allow_python: bool = False

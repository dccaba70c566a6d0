"""What all processes of a run must have in common of a spec."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

from grammar.unparse import unparse
from tfdeploy.runtime.records.effective import with_paths

if TYPE_CHECKING:
    from dsl import ir


def fingerprint(spec: ir.Spec) -> str:
    """Return the SHA-256 of the spec's text with all defaults filled in, in hexadecimal digits.

    Included files and overrides count. The folders of data files and the run directory do not count, because
    they may differ between machines.
    """
    return sha256(
        unparse(with_paths(spec, os.path.basename, None)).encode(errors="surrogateescape")
    ).hexdigest()

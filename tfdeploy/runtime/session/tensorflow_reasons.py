"""What TensorFlow says went wrong, without the stack traces around it."""

from __future__ import annotations

import re

import tensorflow as tf

_NODE = re.compile(r"^Node: '.*'$", re.MULTILINE)
_SEVERAL = re.compile(r"^\d+ root error\(s\) found\.\n\s*\(0\) [A-Z_]+: *", re.MULTILINE)  # told one by one
_TASK = re.compile(r"^(?:[A-Z_]+: )?(?:From /job:\S+:|=+)\s*$", re.MULTILINE)  # where, not what
_BEHIND = re.compile(r"\n\t ?\[\[|\nOriginal stack trace|\nErrors may have originated")


def reason_of(fault: Exception) -> str:
    """Return what TensorFlow or the operating system says went wrong, on one line."""
    if isinstance(fault, OSError):
        return (fault.strerror or str(fault)).lower()
    text = fault.message if isinstance(fault, tf.errors.OpError) else str(fault)
    *_, said = _NODE.split(_TASK.sub("", text))  # what comes before says where in Python the op was made
    lines = [
        line.strip()
        for line in _BEHIND.split(_SEVERAL.sub("", said, count=1))[0].splitlines()
        if line.strip()
    ]
    return lines[0] if lines else type(fault).__name__

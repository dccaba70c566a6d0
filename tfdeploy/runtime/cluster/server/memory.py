"""Lets a server that holds pieces of variables return memory to the system as soon as it has no use for it.

TensorFlow's allocator asks for regions twice as large as the last one, keeps what it has ever used, and
keeps lists of eight bytes for every 256 bytes of a region, touched or not. The allocator of the C library
keeps the buffers of the network in the same way, in a heap for each thread. Beside a large piece that is a
tenth of its size. Without both, a large buffer is mapped for its use alone, which costs the time of touching
its pages anew. Rows of a batch are smaller: their pages stay, because every step needs as many again. Other
servers, which get whole gradients, are left as they are.
"""

from __future__ import annotations

import ctypes
import os

from dsl import ir

SYSTEM_ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
"""The variable of the environment by which TensorFlow leaves tensors of CPUs to the C library."""

MAPPED_ALONE = 2 << 20
"""The bytes from which on a buffer is mapped alone: more than the rows that a step reads or changes."""

KEPT_FREE = 8 << 20
"""The bytes that stay free at the end of a heap, for the buffers of the next step."""

_TRIM_THRESHOLD, _MAPPING_THRESHOLD = -1, -3  # of mallopt; a threshold that is set does not grow any more
_SETTINGS = (
    ("MALLOC_MMAP_THRESHOLD_", _MAPPING_THRESHOLD, MAPPED_ALONE),
    ("MALLOC_TRIM_THRESHOLD_", _TRIM_THRESHOLD, KEPT_FREE),
)


def holds_pieces(spec: ir.Spec) -> bool:
    """Whether a rule cuts variables of a spec into pieces.

    Args:
        spec: The spec.
    """
    return any(isinstance(rule.target, ir.Sharded) for rule in spec.place.rules)


def return_memory_at_once() -> None:
    """Make this process return large buffers when they are freed; call it before TensorFlow is imported.

    A setting of the user stays as it is. A C library that knows no such setting is left alone.
    """
    os.environ.setdefault(SYSTEM_ALLOCATOR, "true")
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    for variable, option, value in _SETTINGS:
        if set_option is not None and variable not in os.environ:
            set_option(option, value)

"""Starting TensorFlow without its chatter.

TensorFlow and the libraries it loads write to standard error before any setting of theirs counts, so while
they are imported the file descriptor itself goes to a temporary file, which is shown only if the import
fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FATAL_ONLY = "3"  # what TensorFlow logs as errors is raised as well, or of no consequence


def start_tensorflow(*, verbose: bool = False) -> Any:
    """Import TensorFlow, and Keras on top of it, and return the module; silent unless `verbose`."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if verbose or "tensorflow" in sys.modules:
        import tensorflow as tf

        return tf
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", FATAL_ONLY)
    with _silenced():
        import keras
        import tensorflow as tf

        del keras
        tf.config.list_physical_devices()  # looking for GPUs is what some of the chatter is about
    tf.get_logger().setLevel("ERROR")
    return tf


@contextmanager
def _silenced() -> Iterator[None]:
    """Send what is written to descriptor 2 to a file, and pass it on if the block fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except Exception:
            os.dup2(before, 2)
            _replay(kept)
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


def _replay(kept: IO[bytes]) -> None:
    kept.seek(0)
    with os.fdopen(os.dup(2), "wb") as out:
        shutil.copyfileobj(kept, out)

"""What several tests of graphs need."""

from collections.abc import Iterator

import pytest
import tensorflow as tf
from tensorflow.python.framework.config import disable_op_determinism


@pytest.fixture
def deterministic_ops() -> Iterator[None]:
    """Do as a run does for `deterministic = true`: the setting is one of the whole process."""
    tf.config.experimental.enable_op_determinism()
    try:
        yield
    finally:
        disable_op_determinism()

"""Starts TensorFlow in this process and prints what it has found, as one line of JSON.

It is run as a process of its own (`python -m tfdeploy.doctor.probe`), because a TensorFlow that does not fit
the machine can end its process.
"""

from __future__ import annotations

import resource
import sys

from attrs import frozen

from dsl.files.typed_json import Count, to_json
from tfdeploy.runtime.start_tensorflow import start_tensorflow


@frozen
class Started:
    """What a process that has started TensorFlow knows.

    Attributes:
        tensorflow: The version of TensorFlow.
        keras: The version of Keras.
        cuda: The version of CUDA that TensorFlow was built for; None for a build without CUDA.
        gpus: The names of the GPUs that TensorFlow can use.
        peak_bytes: The largest amount of memory that the process has held.
    """

    tensorflow: str
    keras: str
    cuda: str | None
    gpus: tuple[str, ...]
    peak_bytes: Count


def main() -> int:
    """Start TensorFlow and print the record."""
    tf = start_tensorflow()
    import importlib

    keras = importlib.import_module("keras")
    devices = tf.config.list_physical_devices("GPU")
    gpus = tuple(
        str(tf.config.experimental.get_device_details(each).get("device_name", each.name)) for each in devices
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cuda = tf.sysconfig.get_build_info().get("cuda_version")
    sys.stdout.write(to_json(Started(tf.__version__, keras.__version__, cuda, gpus, peak)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

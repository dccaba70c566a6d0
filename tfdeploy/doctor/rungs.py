"""The rungs of `doctor --gpu` in words, and the records of what they come to; `ladder.py` tries them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from dsl.files.typed_json import JsonRecord


@frozen
class Row:
    """A rung.

    Attributes:
        title: What it tries.
        needs: The rungs without which it says nothing.
        advice: What usually helps if it fails.
    """

    title: str
    needs: tuple[str, ...]
    advice: str


FIRST = "seen"
"""The rung that is not tried on logical CPUs, on which all others are."""

RUNGS = {
    "seen": Row(
        "the driver and TensorFlow see the GPUs",
        (),
        "install CUDA's libraries with `pip install 'tfdeploy[cuda]'`, look whether `nvidia-smi` works, and "
        "start a container with its GPUs (`docker run --gpus all`)",
    ),
    "op": Row(
        "a product of matrices is right on each device",
        ("seen",),
        "the driver may be too old for the CUDA that TensorFlow was built for, or the GPU for its kernels: "
        "compare the versions in the report with TensorFlow's table of builds",
    ),
    "tower": Row(
        "one tower trains as it does on a CPU",
        ("op",),
        "look whether other programs use the GPU (`nvidia-smi`); `NVIDIA_TF32_OVERRIDE=0` rules out that "
        "products are rounded to TensorFloat-32",
    ),
    "two towers": Row(
        "two towers with half of the batch each train as one does",
        ("tower",),
        "copies between GPUs may be broken: compare with `NCCL_P2P_DISABLE=1`, and with ACS and IOMMU "
        "switched off in the BIOS",
    ),
    "aggregations": Row(
        "every aggregation but TensorFlow's own sums the same gradients",
        ("two towers",),
        "use an `aggregate` that holds; copies between GPUs may be broken, as for two towers",
    ),
    "collectives": Row(
        "TensorFlow's own all-reduce, which uses NCCL between GPUs, sums them too",
        ("two towers",),
        "use another `aggregate` than `collective`; `NCCL_DEBUG=INFO` lets NCCL say what it does, and "
        "`NCCL_P2P_DISABLE=1` or a larger /dev/shm (`docker run --shm-size 1g`) often help",
    ),
    "float16": Row(
        "training with float16 and a scaled loss comes to about the same",
        ("tower",),
        "use `precision = mixed_bfloat16` or `float32`; GPUs below compute capability 7.0 gain nothing",
    ),
    "memory": Row(
        "a step holds about as much memory as is forecast",
        ("tower",),
        "forecasts are too low here: leave room in `gpu_memory`, and attach the report",
    ),
    "placement": Row(
        "every op runs on the device that the spec asks for",
        ("two towers",),
        "a kernel may be missing for this GPU: `tfdeploy plan --only-misplaced` shows the ops of a spec",
    ),
}
"""The rungs in their order."""


@frozen
class Installed(JsonRecord):
    """What the rungs are tried with.

    Attributes:
        tensorflow: The version of TensorFlow.
        keras: The version of Keras.
        cuda: The version of CUDA that TensorFlow was built for; None for a build without CUDA.
        cudnn: The version of cuDNN, likewise.
        driver: What NVIDIA's driver says of itself; None without one.
        gpus: The name and the compute capability of each GPU that TensorFlow can use.
    """

    tensorflow: str
    keras: str
    cuda: str | None
    cudnn: str | None
    driver: str | None
    gpus: tuple[str, ...]


@frozen
class Outcome(JsonRecord):
    """How a rung has ended.

    Attributes:
        name: The name of the rung.
        failure: What was found, if it has failed; None if it has not.
        skipped: Why it was not tried; None if it was.
        seconds: The seconds that it has taken.
        figures: What was measured, by name.
    """

    name: str
    failure: str | None = None
    skipped: str | None = None
    seconds: float = 0.0
    figures: Mapping[str, float] = {}

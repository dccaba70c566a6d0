"""The page of the table of hardware."""

from __future__ import annotations

from dsl.schema.hardware import (
    CLUSTER_START,
    NETWORK_LATENCY,
    NETWORK_SPEED,
    REACHED_BYTES,
    REACHED_FLOPS,
    STEP_START,
    TABLE,
    Hardware,
)
from tools.reference.markdown import NOTICE, table

PAGE = f"""\
# Hardware

What `kind` in [`devices`](blocks.md#devices) can name. If nothing was measured, the time of a step is estimated from
these figures: an op takes as long as its arithmetic or its memory takes, whichever is longer. Ops are assumed to reach
{REACHED_FLOPS:.0%} of the arithmetic and {REACHED_BYTES:.0%} of the memory that the makers name. Such an estimate says which of two
layouts is faster more reliably than it says how fast either is; `plan` marks it. How to measure instead is in
[How long a step takes](../how-to/time.md).

Figures are for one GPU, or for one core of a CPU. TFLOP/s are 10^12 floating point operations a second, GB/s 10^9 bytes a
second. `link` in `devices` replaces the link of the table.

"""
BELOW = f"""
Beside GPUs, the CPUs of a spec are of the kind `cpu`. Between two machines, a message is assumed to take
{NETWORK_LATENCY * 1e6:.0f} µs and {NETWORK_SPEED / 1e9:.3g} GB/s. The start and the end of a step are assumed to take {STEP_START * 1e6:.0f} µs,
and {CLUSTER_START * 1e3:.0f} ms if several processes work on it.
"""


def page() -> str:
    """Return the text of the page."""
    head = [
        "kind",
        "float32, TFLOP/s",
        "float16 and bfloat16, TFLOP/s",
        "memory, GB/s",
        "link, GB/s",
        "source",
    ]
    return NOTICE + PAGE + table(head, [_row(each) for each in TABLE.values()]) + BELOW


def _row(each: Hardware) -> list[str]:
    return [
        f"`{each.name}`",
        f"{each.flops / 1e12:.3g}",
        f"{each.half_flops / 1e12:.3g}",
        f"{each.memory / 1e9:,.0f}",
        f"{each.link / 1e9:.3g}",
        each.source,
    ]

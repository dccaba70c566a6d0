"""Tests that compute with bfloat16, which TensorFlow cannot do everywhere."""

import os

import pytest

needs_bfloat16 = pytest.mark.skipif(
    "ONEDNN_MAX_CPU_ISA" in os.environ,
    reason="TensorFlow takes the instructions that this hides for there, and aborts at a product of bfloat16",
)
"""Skips a test, or a case, if instructions of the processor are hidden from oneDNN alone."""

MIXED_BFLOAT16 = pytest.param("mixed_bfloat16", marks=needs_bfloat16)

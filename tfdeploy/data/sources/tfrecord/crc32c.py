"""The checksum of TFRecord files: CRC-32C, the Castagnoli polynomial, masked as TensorFlow does."""

from __future__ import annotations

from functools import cache

POLYNOMIAL = 0x82F63B78
MASK_DELTA = 0xA282EAD8
WORD = 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        return value

    return tuple(entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """Return the checksum of `data`; about a third of a second for a megabyte."""
    table, value = _table(), WORD
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ WORD


def masked(checksum: int) -> int:
    """Return `checksum` as it is written into files."""
    return ((checksum >> 15 | checksum << 17) + MASK_DELTA) & WORD

"""Makes TensorFlow's servers listen at one address of this machine instead of at all of them.

A TensorFlow server always asks the operating system for its port at every address, whatever the cluster says,
and no option changes that. So the call by which its library asks (`bind`, in the table of the functions that
the library takes from elsewhere) goes through a function of ours while a server starts, which puts the wanted
address in place of "every address". What came of it is looked at afterwards: a server that listens anywhere
else is not used.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIBRARY = "libtensorflow"

_DYNAMIC = 2  # the kind of segment that has the tables below (ELF, as all that follows)
_PLT_SIZE, _STRINGS, _SYMBOLS, _PLT = 2, 5, 6, 23  # tags in the dynamic segment
_RELOCATION = struct.Struct("<QQq")  # offset, info, addend
_SYMBOL_SIZE = 24
_WRITABLE = 0x1 | 0x2  # PROT_READ, PROT_WRITE
_BIND = b"bind\0"
_ANY_V4, _ANY_V6 = bytes(4), bytes(16)
_BIND_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, use_errno=True)


class BindingError(Exception):
    """A server cannot be made to listen at the wanted address alone."""


class _Segment(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("file_size", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("align", ctypes.c_uint64),
    )


class _Library(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("segments", ctypes.POINTER(_Segment)),
        ("count", ctypes.c_uint16),
    )


_EACH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)


@contextmanager
def listening_at(host: str, port: int) -> Iterator[None]:
    """Make a TensorFlow server that starts on `port` during the block listen at the IP address `host` alone.

    Raises:
        BindingError: If the library has no call of `bind` that can be replaced.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    slots = [slot for base, dynamic in _libraries(libc) for slot in _slots(base, dynamic)]
    if not slots:
        raise BindingError("TensorFlow's library does not ask for its ports in a way that is known here")
    wrapper = _BIND_TYPE(_leading_to(host, port, _BIND_TYPE(("bind", libc))))
    address = ctypes.cast(wrapper, ctypes.c_void_p).value or 0
    before = [_read(slot) for slot in slots]
    for slot in slots:
        _write(libc, slot, address)
    try:
        yield
    finally:
        for slot, old in zip(slots, before, strict=True):
            _write(libc, slot, old)


def _leading_to(host: str, port: int, real: Callable[..., int]) -> Callable[..., int]:
    """Return a `bind` that puts `host` in place of every address, if `port` is asked for."""
    wanted = ipaddress.ip_address(host)
    v6 = wanted.packed if wanted.version == 6 else b"\0" * 10 + b"\xff\xff" + wanted.packed  # noqa: PLR2004

    def bind(descriptor: int, address: int, length: int) -> int:
        raw = bytearray(ctypes.string_at(address, length))
        family, asked = struct.unpack_from("=H", raw)[0], struct.unpack_from("!H", raw, 2)[0]
        if asked == port and family == socket.AF_INET6 and raw[8:24] == _ANY_V6:
            raw[8:24] = v6
        elif asked == port and family == socket.AF_INET and raw[4:8] == _ANY_V4 and wanted.version == 4:  # noqa: PLR2004
            raw[4:8] = wanted.packed
        buffer = (ctypes.c_char * length).from_buffer(raw)
        ctypes.set_errno(0)
        return real(descriptor, ctypes.addressof(buffer), length)

    return bind


def listening_addresses(port: int) -> set[str]:
    """Return the addresses at which this process listens on `port`, in the short form: `127.0.0.1`, `::`."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not str(entry.readlink()).startswith("socket:"):
                continue
            each = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue  # closed meanwhile
        with each:
            if each.family not in {socket.AF_INET, socket.AF_INET6}:
                continue
            host, own, *_ = each.getsockname()
            if own == port and each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.add(_plain(host))
    return found


def _plain(host: str) -> str:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


# --- the table of functions that a library takes from elsewhere -------------------------------------------


def _libraries(libc: Any) -> list[tuple[int, int]]:
    """Return the address in memory of each of TensorFlow's libraries, and that of its dynamic section."""
    found: list[tuple[int, int]] = []

    def note(library: Any, size: int, data: Any) -> int:
        del size, data
        each = library.contents
        if LIBRARY in Path(each.name.decode(errors="replace")).name:
            segments = (each.segments[at] for at in range(each.count))
            found.extend((each.base, each.base + one.address) for one in segments if one.kind == _DYNAMIC)
        return 0

    libc.dl_iterate_phdr(_EACH(note), None)
    return found


def _slots(base: int, dynamic: int) -> list[int]:
    """Return the addresses of the entries through which a library calls `bind`."""
    tables: dict[int, int] = {}
    while tag := _read(dynamic):
        tables.setdefault(tag, _read(dynamic + 8))
        dynamic += 16
    if _PLT not in tables:
        return []
    table = ctypes.string_at(tables[_PLT], tables[_PLT_SIZE])
    found = []
    for offset, info, _ in _RELOCATION.iter_unpack(table):
        name = ctypes.c_uint32.from_address(tables[_SYMBOLS] + _SYMBOL_SIZE * (info >> 32)).value
        if ctypes.string_at(tables[_STRINGS] + name, len(_BIND)) == _BIND:
            found.append(base + offset)
    return found


def _read(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _write(libc: Any, address: int, value: int) -> None:
    page = os.sysconf("SC_PAGESIZE")
    if libc.mprotect(ctypes.c_void_p(address // page * page), ctypes.c_size_t(page), _WRITABLE):
        raise BindingError(
            f"a table of TensorFlow's library cannot be written: {os.strerror(ctypes.get_errno())}"
        )
    ctypes.c_uint64.from_address(address).value = value

"""Device memory: pages of the host that are poisoned, fenced and known by address."""

import bisect
import ctypes
import mmap
from typing import NamedTuple

PAGE = mmap.PAGESIZE
POISON = 0xFF  # NaN, or -1: nobody may rely on what is there
POISONED = 64 << 20  # bytes up to which an allocation is
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Allocation(NamedTuple):
    """One piece of device memory."""

    base: int
    mapped: int
    size: int
    device: int


class Place(NamedTuple):
    """What is at an address: the number of its device, and the bytes from there to the end of the allocation."""

    device: int
    size: int


allocations: dict[int, Allocation] = {}  # by address
addresses: list[int] = []  # sorted


def take(size: int, device: int) -> int:
    """The address of new memory. It ends, up to 255 bytes, at a page that cannot be touched."""
    span = -(-max(size, 1) // PAGE) * PAGE
    base = libc.mmap(None, span + PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base == ctypes.c_void_p(-1).value:
        raise MemoryError("the host has no memory for the emulated device")
    libc.mprotect(base + span, PAGE, 0)
    address = base + span - -(-size // 256) * 256  # CUDA aligns at 256 bytes
    if size <= POISONED:
        ctypes.memset(address, POISON, size)
    allocations[address] = Allocation(base, span + PAGE, size, device)
    bisect.insort(addresses, address)
    return address


def give_back(address: int) -> Allocation:
    """Unmap memory: whoever touches it from now on is told by a signal."""
    given = allocations.pop(address)
    addresses.pop(bisect.bisect_left(addresses, address))
    libc.munmap(given.base, given.mapped)
    return given


def at(address: int) -> Place | None:
    """What is known of an address; None if it is not on a device."""
    place = bisect.bisect_right(addresses, address) - 1
    if place < 0:
        return None
    start = addresses[place]
    found = allocations[start]
    return Place(found.device, start + found.size - address) if address < start + max(found.size, 1) else None

"""The make-believe GPUs: what CuPy asks of the CUDA runtime and driver, counted, and made to fail on demand."""

import ctypes
import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ies_gpu.backend.cuda import DOUBLE_RATIO
from tests.cuda_emulator import SCHEDULES

from . import memory

DEFAULT_SHARED = 48 << 10
MOST_DEVICES = 8
LARGE = 100_000  # bytes of input from which on a reduction should fill a GPU
NO_DRIVER, NO_DEVICE, OUT_OF_MEMORY, INVALID_VALUE, NO_PEERS = 35, 101, 2, 1, 217
UPLOAD, DOWNLOAD, WITHIN, ANY = 1, 2, 3, 4  # kinds of copies
OUTCOMES = ("", "threads wait at different barriers", "shared memory was written beyond its end")


class LaunchError(RuntimeError):
    """The driver refuses a launch, or the kernel did what kernels must not."""


@dataclass
class Machine:
    """One host with CUDA devices."""

    n_devices: int = 1
    limit: int = 8 << 30  # bytes of memory of each
    pool: bool = True  # CuPy's memory pool; without it every array is an allocation, of known size
    compiles: bool = True  # whether NVRTC compiles the package's kernels
    contracted: bool = False  # whether these round a product and a sum together, as on a GPU
    refuse: Callable[[int], bool | BaseException] | None = None  # given a size: whether, or how, an allocation fails
    spoil: Callable[[str, tuple[Any, ...]], None] | None = None  # may overwrite what a kernel of the package wrote
    double_ratio: int = 2  # the rate of float32 over that of float64
    jacobi: str = "sound"  # or "needs rank": ``syevjBatched`` fails, as reported of cuSOLVER, on matrices that lack it
    queued: bool = False  # launches and copies wait until somebody waits for the device, as on a GPU that is busy
    schedule: str = "forward"  # of blocks and threads; "reverse", "random"
    # ``launches``, calls of ``libraries``, ``syncs`` of every kind, ``uploads``, ``downloads``, bytes ``up``, ``down``
    # and ``moved``, ``freed`` (times that the backend emptied the cache), ``kernel ...``
    counts: Counter[str] = field(default_factory=Counter)
    stage: str = ""
    # the same by the stage that is named, with the ``peak`` of memory in it
    by_stage: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    transfers: list[tuple[str, int]] = field(default_factory=list)  # direction and bytes
    waited: list[int] = field(default_factory=list)  # the current device at each wait
    # names, bytes of the input and blocks of the kernels that CuPy writes for reductions, but for those of CUB
    reductions: list[tuple[str, int, int]] = field(default_factory=list)
    taken: list[int] = field(default_factory=lambda: [0] * MOST_DEVICES)  # bytes of each device
    peak: int = 0
    own: set[int] = field(default_factory=set)  # addresses
    queue: list[Callable[[], None]] = field(default_factory=list)

    @property
    def current(self) -> int:
        return get_device()

    @property
    def used(self) -> int:
        """Bytes in use, on all devices."""
        return sum(self.taken)

    def count(self, what: str, amount: int = 1) -> None:
        self.counts[what] += amount
        self.by_stage[self.stage][what] += amount

    def do(self, action: Callable[[], None]) -> None:
        """Work for the device: now, or when somebody waits for it."""
        if self.queued:
            self.queue.append(action)
        else:
            action()

    def wait(self) -> None:
        """Finish all that was begun."""
        while self.queue:
            self.queue.pop(0)()

    def allocate(self, size: int) -> int:
        device = get_device()
        refused = self.refuse(size) if self.refuse is not None else False
        if isinstance(refused, BaseException):
            raise refused
        if refused or self.taken[device] + size > self.limit:
            raise out_of_memory(size, self.taken[device], self.limit) if not self.pool else error(OUT_OF_MEMORY)
        self.taken[device] += size
        self.peak = max(self.peak, self.used)
        counts = self.by_stage[self.stage]
        counts["peak"] = max(counts["peak"], self.used)
        address = memory.take(size, device)
        self.own.add(address)
        return address


@dataclass
class Function:
    """An entry point of a compiled text: what starts it, the bytes of its parameters, whether it is a reduction."""

    name: str
    launch: Any
    widths: list[int]
    reduces: bool
    shared: int = DEFAULT_SHARED


local = threading.local()
machine: Machine | None = None  # that is plugged in
runtime: Any = None  # CuPy's module
handles = itertools.count(0x1000, 16)
modules: dict[int, tuple[ctypes.PyDLL, bool]] = {}
functions: dict[int, Function] = {}
pinned: dict[int, Any] = {}


def error(status: int) -> BaseException:
    return runtime.CUDARuntimeError(status)


def out_of_memory(size: int, used: int, limit: int) -> BaseException:
    from cupy.cuda.memory import OutOfMemoryError

    return OutOfMemoryError(size, used, limit)


def now() -> Machine:
    """The machine that is plugged in; else CUDA says that there is no driver."""
    if machine is None:
        raise error(NO_DRIVER)
    return machine


def get_device() -> int:
    now()
    return getattr(local, "device", 0)


def set_device(number: int) -> None:
    if not 0 <= number < now().n_devices:
        raise error(NO_DEVICE)
    local.device = number


def malloc(size: int, *_: Any) -> int:
    return now().allocate(size)


def free(address: int, *_: Any) -> None:
    if not address:
        return
    if machine is not None:
        machine.wait()  # as cudaFree does
    given = memory.give_back(address)
    if machine is not None and address in machine.own:  # else it is left of an earlier one
        machine.own.remove(address)
        machine.taken[given.device] -= given.size


def free_info() -> tuple[int, int]:
    return max(0, now().limit - now().taken[get_device()]), now().limit


def host_alloc(size: int, flags: int = 0) -> int:
    buffer = ctypes.create_string_buffer(max(size, 1))
    pinned[ctypes.addressof(buffer)] = buffer
    return ctypes.addressof(buffer)


def attributes_of(address: int) -> Any:
    place = memory.at(address)
    if place is None:
        return runtime.PointerAttributes(get_device(), 0, address, 0)
    return runtime.PointerAttributes(place.device, address, 0, 2)


def kind_of_memory(address: int) -> int:
    return 2 if memory.at(address) else int(address in pinned)


def copy(to: int, source: int, size: int, kind: int = ANY, *_: Any) -> None:
    """Copies in which an address is not where the kind of the copy says are refused."""
    here = now()
    for address, remote in ((to, kind in (UPLOAD, WITHIN)), (source, kind in (DOWNLOAD, WITHIN))):
        place = memory.at(address)
        if size and kind != ANY and (remote != (place is not None) or (place is not None and place.size < size)):
            raise error(INVALID_VALUE)
    if kind in (UPLOAD, DOWNLOAD):
        way = "up" if kind == UPLOAD else "down"
        here.transfers.append((way, size))
        here.count(way, size)
        here.count(f"{way}loads")
    here.do(lambda: ctypes.memmove(to, source, size) and None)


def copy_and_wait(to: int, source: int, size: int, kind: int = ANY) -> None:
    copy(to, source, size, kind)
    if kind == DOWNLOAD:
        now().count("syncs")
    now().wait()


def copy_to_peer(to: int, _: int, source: int, __: int, size: int, *___: Any) -> None:
    now().count("between devices")
    now().do(lambda: ctypes.memmove(to, source, size) and None)


def fill(address: int, value: int, size: int, *_: Any) -> None:
    place = memory.at(address)
    if size and (place is None or place.size < size):
        raise error(INVALID_VALUE)
    now().count("launches")
    now().do(lambda: ctypes.memset(address, value, size) and None)


def synchronise(*_: Any) -> None:
    now().count("syncs")
    now().waited.append(get_device())
    now().wait()


def properties(device: int) -> dict[str, Any]:
    if not 0 <= device < now().n_devices:
        raise error(NO_DEVICE)
    return {
        "name": b"CPU in disguise", "totalGlobalMem": now().limit, "sharedMemPerBlock": DEFAULT_SHARED,
        "regsPerBlock": 65536, "warpSize": 32, "maxThreadsPerBlock": 1024, "maxThreadsDim": (1024, 1024, 64),
        "maxGridSize": (2**31 - 1, 65535, 65535), "clockRate": 1_000_000, "major": 8, "minor": 0,
        "multiProcessorCount": 108, "l2CacheSize": 40 << 20, "maxThreadsPerMultiProcessor": 2048, "pciBusID": device,
        "pciDeviceID": 0, "pciDomainID": 0, "sharedMemPerMultiprocessor": 164 << 10, "uuid": bytes(16),
        "memoryClockRate": 1_000_000, "memoryBusWidth": 5120,
    }  # fmt: skip


# by the numbers of CUDA: compute capability, multiprocessors, shared memory, threads of a block and of a warp
ATTRIBUTES = {75: 8, 76: 0, 16: 108, 8: DEFAULT_SHARED, 97: 163 << 10, 1: 1024, 10: 32, 39: 2048}


def get_attribute(number: int, _: int) -> int:
    return now().double_ratio if number == DOUBLE_RATIO else ATTRIBUTES.get(number, 0)


def no_peers(*_: Any) -> None:
    raise error(NO_PEERS)


def nothing(*_: Any) -> None:
    return None


def new_handle(*_: Any) -> int:
    return next(handles)


def always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def load_module(image: bytes) -> int:
    """An image is what ``compile_text`` made of a text: the path of a library, and what kind of text it was."""
    path, kind = bytes(image).decode().split("\n")
    handle = next(handles)
    modules[handle] = ctypes.PyDLL(path), kind == "reduction"  # fibers are one set: no two kernels at a time
    return handle


def get_function(module: int, name: str) -> int:
    library, reduces = modules[module]
    try:
        launch = library[f"launch_{name}"]
    except AttributeError:
        raise LaunchError(f"CUDA_ERROR_NOT_FOUND: named symbol not found: {name}") from None
    launch.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, *[ctypes.c_int] * 4]
    widths = (ctypes.c_int * 256)()
    count = library[f"widths_{name}"](widths)
    handle = next(handles)
    functions[handle] = Function(name, launch, widths[:count], reduces)
    return handle


def set_attribute(function: int, attribute: int, value: int) -> None:
    if attribute == 8:  # the largest dynamic shared memory
        functions[function].shared = value


def launch(
    handle: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, given: int, *_: Any
) -> None:
    here, function = now(), functions[handle]
    if not (0 < gx < 2**31 and 0 < gy <= 65535 and 0 < gz <= 65535 and 0 < bx * by * bz <= 1024 and bz <= 64):
        raise LaunchError(f"CUDA_ERROR_INVALID_VALUE: grid {gx, gy, gz}, block {bx, by, bz}")
    if shared > function.shared:
        raise LaunchError(f"CUDA_ERROR_INVALID_VALUE: {shared} bytes of dynamic shared memory")
    table = ctypes.cast(given, ctypes.POINTER(ctypes.c_void_p))
    # the arguments belong to the caller, who may not be there any more when a queue gets to the launch
    widths = enumerate(function.widths)
    values = [ctypes.create_string_buffer(ctypes.string_at(table[i], size), size) for i, size in widths]
    sizes = operands(function.name, values)
    here.count("launches")
    here.count(f"kernel {function.name}")
    if not here.pool:
        here.count("moved", sum(sizes))
        if function.reduces and sizes:
            note_reduction(here, function.name, max(sizes), gx * gy * gz)
    here.do(lambda: run(function, (gx, gy, gz, bx, by, bz), shared, values, here.schedule))


def operands(name: str, values: list[Any]) -> list[int]:
    """Bytes of the arrays among the arguments; memory of another device is refused."""
    sizes, device = [], get_device()
    for value in values:
        words = ctypes.sizeof(value) // 8
        for number in range(words if words < 25 else 1):  # the first word of a large struct is its pointer
            place = memory.at(int.from_bytes(value.raw[8 * number : 8 * number + 8], "little"))
            if place is None or (number > 0 and place.device != device):
                continue  # CuPy never sets the index of its Indexer, which can hold an old address
            if place.device != device:
                raise LaunchError(
                    f"CUDA_ERROR_ILLEGAL_ADDRESS: {name} on device {device} gets memory of device {place.device}"
                )
            sizes.append(place.size)
    return sizes


def note_reduction(here: Machine, name: str, size: int, blocks: int) -> None:
    here.reductions.append((name, size, blocks))
    if size >= 8 * LARGE:
        counts = here.by_stage[here.stage]
        counts["fewest blocks"] = min(counts["fewest blocks"] or blocks, blocks)


def run(function: Function, sizes: tuple[int, ...], shared: int, values: list[Any], schedule: str) -> None:
    from ies_gpu.backend.kernels.cuda.text import ENTRIES

    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    strict = any(function.name in entries for entries in ENTRIES.values())
    order = SCHEDULES.index(schedule), 1
    outcome = function.launch(ctypes.byref((ctypes.c_uint * 6)(*sizes)), shared, pointers, *order, int(strict), 0)
    if outcome:
        raise LaunchError(f"{function.name}: {OUTCOMES[outcome]}")


RUNTIME = {
    "_ensure_context": lambda: now() and None, "getDevice": get_device, "setDevice": set_device,
    "getDeviceCount": lambda: now() and MOST_DEVICES, "driverGetVersion": lambda: 12090 if machine else 0,
    "runtimeGetVersion": always(12090), "deviceGetAttribute": get_attribute,
    "getDeviceProperties": properties, "memGetInfo": free_info, "deviceSynchronize": synchronise,
    "deviceCanAccessPeer": always(0), "deviceEnablePeerAccess": no_peers, "_deviceEnsurePeerAccess": no_peers,
    "malloc": malloc, "mallocAsync": malloc, "mallocManaged": malloc, "hostAlloc": host_alloc,
    "free": free, "freeAsync": free, "freeHost": lambda address: pinned.pop(address, None) and None,
    "memcpy": copy_and_wait, "memcpyAsync": copy, "memcpyPeer": copy_to_peer, "memcpyPeerAsync": copy_to_peer,
    "memset": fill, "memsetAsync": fill, "pointerGetAttributes": attributes_of, "pointerGetMemoryType": kind_of_memory,
    "streamCreate": new_handle, "streamCreateWithFlags": new_handle, "streamCreateWithPriority": new_handle,
    "streamDestroy": nothing, "streamSynchronize": synchronise, "streamQuery": always(0), "streamWaitEvent": nothing,
    "streamIsCapturing": always(0), "eventCreate": new_handle, "eventCreateWithFlags": new_handle,
    "eventDestroy": nothing, "eventRecord": nothing, "eventSynchronize": synchronise,
    "eventQuery": lambda _: now().wait() or 0, "eventElapsedTime": always(1.0),
}  # fmt: skip
DRIVER = {
    "moduleLoadData": load_module, "moduleUnload": nothing, "moduleGetFunction": get_function, "launchKernel": launch,
    "funcGetAttribute": lambda attribute, _: {0: 1024, 4: 32}.get(attribute, 0), "funcSetAttribute": set_attribute,
    "ctxGetCurrent": always(1), "ctxGetDevice": get_device, "streamGetCtx": always(1),
    "occupancyMaxActiveBlocksPerMultiprocessor": always(2), "occupancyMaxPotentialBlockSize": always((216, 256)),
}  # fmt: skip

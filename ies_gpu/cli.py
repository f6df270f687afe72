"""The command line: ``ies-gpu fit | show | data | demo | doctor``.

Only the standard library is imported here; each command imports what it needs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import signal
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__
from .console import Console

if TYPE_CHECKING:
    from .selection import Selection

WIDTH = 80
FAILED, WRONG_USE, INTERRUPTED, BROKEN_PIPE, TERMINATED = 1, 2, 130, 141, 143
# errors whose message is a sentence for the user; of others the kind is told too
EXPECTED = ("ValueError", "TypeError", "OSError", "ImportError", "DeviceError")


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    console = Console(sys.stderr, "lines")
    debug = False
    try:
        args = build_parser().parse_args(argv)
        console, debug = Console(sys.stderr, style_of(args)), args.debug
        with shown_warnings(console), stopped_by_sigterm():
            status = args.run(args, console)
            sys.stdout.flush()
            return status
    except SystemExit as stop:  # --help, --version, wrong use
        return int(stop.code or 0)
    except KeyboardInterrupt:
        console.close()
        console.note("ies-gpu: stopped")
        return INTERRUPTED
    except Terminated:
        console.close()
        return TERMINATED
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        console.close()
        if debug:
            raise
        console.error(sentence(error))
        return FAILED


def sentence(error: Exception) -> str:
    """An error in one line, in the words of the command line."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    text = str(error)
    if isinstance(error, MemoryError):
        return f"out of memory ({text or 'no details'}); set --memory-limit, use --dtype float32 or fewer points"
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    if not any(kind in kinds for kind in EXPECTED):
        return f"{type(error).__name__}: {text} (unexpected; --debug shows where)"
    # components='largest' and "use radius=0.6" are advice in Python; here they are options
    text = re.sub(r"\b(components|device|dtype)='([\w:]+)'", r"--\1 \2", text)
    return re.sub(r"(use |\()(bandwidth|radius)=", r"\1--\2 ", text)


class Terminated(BaseException):
    """SIGTERM came; as an exception it lets half-written files be removed."""


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
        yield
        return

    def stop(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def shown_warnings(console: Console) -> Iterator[None]:
    """Warnings as one clean line each."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        console.warning(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def style_of(args: argparse.Namespace) -> str:
    """How the console speaks."""
    if getattr(args, "log_format", "text") == "json":
        return "json"
    if getattr(args, "quiet", False):
        return "quiet"
    return "bar" if sys.stderr.isatty() else "lines"


# ---------------------------------------------------------------------------------------------------------------- words


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = Parser(
        prog="ies-gpu",
        description="Choose the few coordinates of a diffusion map that make a full map of a manifold, however "
        "long and thin it is.",
        epilog="Start with 'ies-gpu demo'. 'ies-gpu COMMAND --help' tells more. Exit status: 0 done, 1 failed, "
        "2 wrong use, 130 stopped by Ctrl-C.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ies-gpu {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_fit(commands)
    add_show(commands)
    add_data(commands)
    add_demo(commands)
    add_doctor(commands)
    return parser


class Parser(argparse.ArgumentParser):
    """Wrong use gets one line, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"ies-gpu: error: {message} (see '{self.prog} --help')\n")


def add_command(commands: Any, name: str, run: Callable[..., int], text: str, example: str) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run, parser=command)
    return command


def add_fit(commands: Any) -> None:
    fit = add_command(
        commands, "fit", run_fit, "choose coordinates for points in a file",
        "ies-gpu fit points.npy -d 2 -s 2 --bandwidth 0.25 -o run.npz",
    )  # fmt: skip
    fit.add_argument("points", metavar="POINTS", help=".npy, .npz, .csv or .tsv; one row a point")
    main_options = fit.add_argument_group("the problem")
    option = main_options.add_argument
    option("-d", "--intrinsic-dim", type=count, required=True, metavar="D", help="dimension of the manifold")
    option("-s", "--subset-size", type=count, required=True, metavar="S", help="how many coordinates to choose")
    option("--bandwidth", type=positive, required=True, metavar="EPS", help="distance over which neighbours count")
    option("-o", "--output", metavar="RUN.NPZ", help="where the result goes")
    add_details(fit.add_argument_group("details").add_argument)
    add_machine(fit.add_argument_group("the machine").add_argument)
    add_talk(fit, as_json="print the result as one JSON object")


def add_details(option: Callable[..., Any]) -> None:
    option("-m", "--n-components", type=count, default=20, metavar="M", help="coordinates to choose from (20)")
    option("--radius", type=positive, metavar="R", help="neighbours are this close (3 * EPS)")
    option("--zeta", type=weight, default="auto", metavar="Z", help="weight of the penalty, or auto (auto)")
    option("--percentile", type=percent, default=75.0, metavar="P", help="of the regret, for zeta auto (75)")
    option("--components", choices=("raise", "largest"), default="raise", help="when the graph is in parts (raise)")
    option("--tol", type=positive, default=1e-8, metavar="T", help="bound on eigenvector residuals (1e-8)")
    option("--seed", type=seed, default=0, metavar="N", help="seed of the eigensolver (0)")


def add_machine(option: Callable[..., Any]) -> None:
    option("--device", type=device, default="auto", metavar="DEV", help="auto, cpu, cuda or cuda:N (auto)")
    option("--dtype", choices=("float64", "float32"), default="float64", help="storage precision (float64)")
    option("--memory-limit", type=size, metavar="SIZE", help="such as 4G or 500M (half of what is free)")
    option("--threads", type=count, metavar="N", help="CPU threads (all that are allowed)")


def add_talk(command: argparse.ArgumentParser, *, as_json: str = "", progress: bool = True) -> None:
    """What every command shares."""
    option = command.add_argument_group("output").add_argument
    if as_json:
        option("--json", action="store_true", help=as_json)
    if progress:
        option("--quiet", action="store_true", help="no progress and no summary, only warnings and errors")
        option("--log-format", choices=("text", "json"), default="text", help="of the progress on stderr (text)")
    option("--debug", action="store_true", help="show the traceback of an error")


def add_show(commands: Any) -> None:
    show = add_command(commands, "show", run_show, "show a result that 'fit' wrote", "ies-gpu show run.npz")
    show.add_argument("run_file", metavar="RUN.NPZ")
    add_talk(show, as_json="print it as one JSON object", progress=False)


def add_data(commands: Any) -> None:
    data = add_command(
        commands, "data", run_data, "make one of the paper's data sets, or list them", "ies-gpu data D1 -o d1.npy"
    )
    data.add_argument("name", metavar="NAME", nargs="?", help="D1 to D13; leave it out for the list")
    data.add_argument("-o", "--output", metavar="FILE.NPY", help="where the points go")
    data.add_argument("--n", type=count, metavar="N", help="how many points (as in the paper)")
    data.add_argument("--seed", type=seed, default=0, metavar="N", help="seed (0)")
    add_talk(data, progress=False)


def add_demo(commands: Any) -> None:
    demo = add_command(
        commands, "demo", run_demo, "see it work on a long strip, with pictures", "ies-gpu demo -o my-folder"
    )
    demo.add_argument("-o", "--output", metavar="DIR", default="ies-gpu-demo", help="for the pictures (ies-gpu-demo)")
    demo.add_argument("--n", type=count, metavar="N", help="how many points (10,000)")
    demo.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the points (0)")
    add_talk(demo)


def add_doctor(commands: Any) -> None:
    doctor = add_command(
        commands, "doctor", run_doctor, "tell what is installed and which device would be used", "ies-gpu doctor"
    )
    add_talk(doctor, as_json="print it as one JSON object", progress=False)


# -------------------------------------------------------------------------------------------------------- option values


def positive(text: str) -> float:
    number = real(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number greater than 0, got {text}")
    return number


def real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def count(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, got {text!r}")
    return int(text)


def seed(text: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, got {text!r}")
    return int(text)


def weight(text: str) -> float | str:
    if text == "auto":
        return text
    number = real(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be auto or a number, 0 or more, got {text}")
    return number


def percent(text: str) -> float:
    number = real(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 100, got {text}")
    return number


def device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"must be auto, cpu, cuda or cuda:N, got {text!r}")
    return text


def size(text: str) -> int:
    """Bytes: 500M, 4G, 1.5GiB, or a plain number; powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"must be a size such as 4G or 500M, got {text!r}")
    number = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
    if number < 1 << 20:
        raise argparse.ArgumentTypeError(f"must be 1M or more, got {text}")
    return number


# ------------------------------------------------------------------------------------------------------------- commands


def run_fit(args: argparse.Namespace, console: Console) -> int:
    if not args.intrinsic_dim <= args.subset_size <= args.n_components:
        d, s, m = args.intrinsic_dim, args.subset_size, args.n_components
        args.parser.error(f"-s must be at least -d ({d}) and at most -m ({m}), got {s}")
    if args.output and Path(args.output).suffix.lower() != ".npz":
        args.parser.error(f"-o must name an .npz file, got {args.output}")
    from .files import check_output, read_points

    if args.output:
        check_output(args.output, ".npz")
    else:
        console.note("no -o: the result will be shown, not saved")
    begin = time.perf_counter()
    console.progress("read", 0, 0)
    points = read_points(args.points)
    console.progress("read", 1, 1)
    selection = select(points, args, console)
    if args.output:
        from .storage import save

        save(selection, args.output)
    console.close()
    if args.json:
        say(json.dumps(as_json(selection, output=args.output)))
    elif not args.quiet:
        say(repr(selection))
        say(f"  time            {time.perf_counter() - begin:.1f} s")
        if args.output:
            say(f"  saved           {args.output} ({os.path.getsize(args.output) / 1e6:.1f} MB)")
    return 0


def select(points: Any, args: argparse.Namespace, console: Console) -> Selection:
    """``select_coordinates`` with the options of ``fit``."""
    from .selection import select_coordinates

    return select_coordinates(
        points,
        intrinsic_dim=args.intrinsic_dim,
        subset_size=args.subset_size,
        bandwidth=args.bandwidth,
        radius=args.radius,
        n_components=args.n_components,
        zeta=args.zeta,
        percentile=args.percentile,
        components=args.components,
        device=args.device,
        dtype=args.dtype,
        memory_limit=args.memory_limit,
        n_threads=args.threads,
        random_state=args.seed,
        tol=args.tol,
        progress=console.progress,
    )


def run_show(args: argparse.Namespace, console: Console) -> int:
    from .storage import load

    selection = load(args.run_file)
    if args.json:
        say(json.dumps(as_json(selection)))
        return 0
    say(repr(selection))
    show_tables(selection)
    return 0


def show_tables(selection: Selection) -> None:
    """The path, the best sets, the settings and the seconds."""
    from .selection import coordinate_names

    say("\nRegularization path, from zeta = inf down")
    say(f"{'zeta from':>11}{'to':>11}{'mean score':>12}{'regret':>9}  set")
    for segment, regret in zip(selection.path, selection.regret_percentiles, strict=True):
        here = "  <- chosen" if segment.subset == selection.subset else ""
        names = ", ".join(coordinate_names(segment.subset))
        numbers = f"{segment.low:11.4g}{segment.high:11.4g}{segment.score:12.3f}{regret:9.3f}"
        say(f"{numbers}  {names}{here}")
    say(f"\nBest sets at zeta = {selection.zeta:.4g}")
    say(f"{'loss':>11}{'mean score':>12}  set")
    for subset, loss, score in best_sets(selection):
        say(f"{loss:11.4f}{score:12.4f}  {', '.join(coordinate_names(subset))}")
    info = selection.diagnostics
    say("")
    listed("settings", [f"{k}={v}" for k, v in info.get("parameters", {}).items() if v is not None])
    listed("seconds", [f"{stage} {seconds:.2f}" for stage, seconds in info.get("seconds", {}).items()])
    listed("versions", [f"{name} {version}" for name, version in info.get("versions", {}).items()])


def run_data(args: argparse.Namespace, console: Console) -> int:
    from .datasets.synthetic import TABLE, load
    from .files import check_output, write_array

    if args.name is None:
        if args.output:
            args.parser.error("which data set? give its NAME before -o")
        return list_data(TABLE)
    name = args.name.upper()
    if name not in TABLE:
        args.parser.error(f"there is no data set {args.name!r}; choose from {', '.join(TABLE)}")
    if args.output and Path(args.output).suffix.lower() != ".npy":
        args.parser.error(f"-o must name an .npy file, got {args.output}")
    output = args.output or f"{name.lower()}.npy"
    if args.output:
        check_output(output, ".npy")
        found = load(name, n_samples=args.n, random_state=args.seed)
        write_array(output, found.X)
        say(f"{output}: {found.X.shape[0]:,} points with {found.X.shape[1]} columns, the {found.title} {name}")
    _, _, bandwidth, d, s, chosen, usual = TABLE[name]
    say(f"the paper chooses {', '.join(f'phi{k}' for k in chosen)}")
    if args.n and args.n != usual:
        bandwidth = float(f"{bandwidth * (usual / args.n) ** (1 / d):.2g}")
        say(f"bandwidth changed with the number of points ({usual:,} in the paper): each keeps as many neighbours")
    run = Path(output).with_name(f"{Path(output).stem}-run.npz")
    if not args.output:
        say(f"  ies-gpu data {name} -o {output}")
    say(f"  ies-gpu fit {shlex.quote(output)} -d {d} -s {s} --bandwidth {bandwidth:g} -o {shlex.quote(str(run))}")
    return 0


def list_data(table: dict[str, Any]) -> int:
    say("name  manifold                  points  d  s  bandwidth  the paper chooses")
    for name, (title, _, bandwidth, d, s, chosen, n) in table.items():
        names = ", ".join(f"phi{k}" for k in chosen)
        say(f"{name:<5} {title:<24} {n:>7,}  {d}  {s}  {bandwidth:>9g}  {names}")
    say("\nMake one with: ies-gpu data D1 -o d1.npy")
    return 0


def run_demo(args: argparse.Namespace, console: Console) -> int:
    from .demo import run_demo as tell

    silent = args.quiet
    tell(
        args.output,
        n_samples=args.n,
        random_state=args.seed,
        say=(lambda line: None) if silent else say,
        progress=console.progress,
    )
    return 0


def run_doctor(args: argparse.Namespace, console: Console) -> int:
    facts = examine()
    if args.json:
        say(json.dumps(facts))
        return 0
    listed("versions", [f"{name} {version}" for name, version in facts["versions"].items()])
    listed("missing", [f"{name} ({what})" for name, what in facts["missing"].items()])
    listed("system", [facts["system"]])
    listed("processor", [f"{facts['cores']} cores, of which {facts['threads']} may be used"])
    listed("memory", [f"{facts['memory_free'] / 2**30:.1f} GiB free; a run takes at most half unless told otherwise"])
    listed("kernels", [facts["kernels"]])
    listed("kernel cache", [facts["kernel_cache"]])
    listed("device", [f"{facts['device']}: {facts['device_reason']}"])
    return 0


def examine() -> dict[str, Any]:
    """Everything that ``doctor`` tells."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from .backend import get_backend
    from .backend.cpu import CpuBackend, available_memory, available_threads

    optional = {"numba": "slower without it", "matplotlib": "for pictures", "cupy": "for CUDA devices"}
    found, missing = {"ies_gpu": __version__, "python": platform.python_version()}, {}
    for name in ("numpy", "scipy", "numba", "threadpoolctl", "tqdm", "matplotlib", "cupy"):
        for package in (name, f"{name}-cuda12x", f"{name}-cuda13x"):
            try:
                found[name] = version(package)
                break
            except PackageNotFoundError:
                continue
        else:
            missing[name] = optional.get(name, "needed")
    chosen, host = get_backend("auto"), CpuBackend()
    return {
        "versions": found,
        "missing": missing,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "threads": available_threads(),
        "memory_free": available_memory(),
        "kernels": host.kernels.NAME,
        "kernel_cache": kernel_cache(host.kernels),
        **{key: plain(value) for key, value in chosen.describe().items() if key in ("device", "device_reason")},
    }


def kernel_cache(kernels: Any) -> str:
    """Where compiled CPU kernels are kept, so that only the first run waits for the compiler."""
    if kernels.NAME == "plain":
        return "none: plain kernels are not compiled"
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return f"{given} (from NUMBA_CACHE_DIR)"
    folder = Path(kernels.__file__).parent
    if os.access(folder, os.W_OK):
        return str(folder / "__pycache__")
    return "the user's cache folder, as the package cannot be written to; NUMBA_CACHE_DIR chooses another"


# --------------------------------------------------------------------------------------------------------------- output


def say(text: str) -> None:
    """Print, folded to 80 columns; the continuation of an indented line stands under its text."""
    for line in text.split("\n"):
        if len(line) <= WIDTH or "ies-gpu fit " in line or line.startswith("{"):
            print(line, flush=True)  # a command to copy and JSON stay whole
            continue
        label = re.match(r"\s*[\w ]*?\s{2,}", line)
        hang = " " * (len(label[0]) if label else 2)
        folded = textwrap.wrap(
            line, WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        )
        print("\n".join(folded), flush=True)


def listed(label: str, items: list[str]) -> None:
    """A label and what belongs to it."""
    if items:
        say(f"  {label:<16}{', '.join(items)}")


def best_sets(selection: Selection, number: int = 5) -> list[tuple[list[int], float, float]]:
    """The first sets of the ranking with loss and score."""
    subsets, losses, scores = (part[:number].tolist() for part in selection.ranking)
    return list(zip(subsets, losses, scores, strict=True))


def as_json(selection: Selection, **more: Any) -> dict[str, Any]:
    """A result for machines; sets are 0-based, names counted from 1 as in the paper."""
    from .selection import coordinate_names

    ranking = [
        {"subset": subset, "names": coordinate_names(subset), "loss": loss, "score": score}
        for subset, loss, score in best_sets(selection)
    ]
    n, m = selection.coordinates.shape
    result = {
        "subset": selection.subset,
        "names": selection.names,
        "zeta": selection.zeta,
        "zeta_interval": selection.zeta_interval,
        "zeta_dimensionless": selection.zeta_dimensionless,
        "n_points": n,
        "n_components": m,
        "ranking": ranking,
        "eigenvalues": selection.eigenvalues,
        "laplace_beltrami_eigenvalues": selection.laplace_beltrami_eigenvalues,
        "diagnostics": selection.diagnostics,
        **more,
    }
    return plain(result)


def plain(value: Any) -> Any:
    """Strict JSON: arrays as lists, numbers that are not finite as null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)

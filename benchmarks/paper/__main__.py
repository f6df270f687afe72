"""``python -m benchmarks.paper -o FOLDER``: one page with the paper's tables and figures, and what agrees with it."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from pathlib import Path

from ies_gpu import __version__
from ies_gpu.cli.console import Console

from . import EXPERIMENTS, experiment
from .book import Book
from .real_cases import CASES

NO_UMAP = "the experiment umap needs umap-learn: pip install 'ies-gpu[umap]'"
INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    parser = build_parser()
    args = parser.parse_args(argv)
    names = [args.only] if args.only else list(EXPERIMENTS)
    data = None if args.data is None else Path(args.data)
    check(parser, args.only, data)
    console = Console(sys.stderr, "quiet" if args.quiet else "bar" if sys.stderr.isatty() else "lines")
    size = "at full size" if args.full else "at the default size (--full uses more points where the page says so)"
    words = f"Tables and figures of Chen and Meila (2019) from ies-gpu {__version__}: {', '.join(names)}, {size}."
    book = Book(args.output, introduction=words)
    if "umap" in names and importlib.util.find_spec("umap") is None:  # say so now, not after the other experiments
        console.say("warning", f"not computed: {NO_UMAP}")
        book.text("umap-missing", "UMAP: not computed", f"{NO_UMAP[0].upper()}{NO_UMAP[1:]}.")
        names.remove("umap")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: console.say("warning", str(message))
            seconds = {name: run(name, book, args, data, console) for name in names}
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        console.close()
    for sentence in book.results:
        print(sentence)
    for name, taken in seconds.items():
        print(f"{name:<12}{taken:8.0f} s")
    print(f"{book.folder / 'index.html'}: {len(book.items)} tables and figures")
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper", description="Recompute the paper's tables and figures.", allow_abbrev=False
    )
    option = parser.add_argument
    option("-o", "--output", metavar="DIR", required=True, help="folder for the page, tables and figures")
    option("--only", choices=tuple(EXPERIMENTS), help="only one experiment")
    option("--full", action="store_true", help="use the paper's number of points, not fewer")
    option("--data", metavar="DIR", help="folder with the real data, for the experiment 'real'")
    option("--device", default="auto", metavar="DEV", help="auto, cpu, cuda or cuda:N (auto)")
    option("-q", "--quiet", action="store_true", help="show no progress")
    return parser


def check(parser: argparse.ArgumentParser, only: str | None, data: Path | None) -> None:
    """Refuse before the work what cannot be done."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("the pictures need matplotlib: pip install 'ies-gpu[plot]'")
    if only == "umap" and importlib.util.find_spec("umap") is None:
        raise SystemExit(NO_UMAP)
    if data is None and only == "real":
        parser.error("--only real needs --data DIR")
    if data is not None and not data.is_dir():
        parser.error(f"--data: the folder {data} does not exist; check the path")
    if data is not None and only in (None, "real") and not any((data / case.file).exists() for case in CASES):
        parser.error(f"--data: {data} contains none of {', '.join(case.file for case in CASES)}")


def run(name: str, book: Book, args: argparse.Namespace, data: Path | None, console: Console) -> float:
    """Run one experiment and write the page; returns the seconds it took."""
    begin = time.perf_counter()
    try:
        experiment(name).run(book, full=args.full, device=args.device, data=data, progress=console)
    except BaseException:  # Ctrl-C too
        if book.items:
            book.text(f"{name}-stopped", f"{name}: not finished", "It stopped or failed before the end.")
            book.write()
        raise
    book.write()  # what is done stays, whatever happens to the next one
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())

"""``ies-gpu reproduce``: the paper's tables and figures."""

from __future__ import annotations

import argparse
from typing import Any

from ..paper import EXPERIMENTS
from .console import Console
from .options import WrongUse, add_command, add_talk, device
from .output import say

NO_UMAP = "the experiment umap needs umap-learn: pip install 'ies-gpu[umap]'"


def add(commands: Any) -> None:
    command = add_command(
        commands,
        "reproduce",
        run,
        "recompute the paper's tables and figures",
        "ies-gpu reproduce --only synthetic -o paper",
    )
    command.add_argument("-o", "--output", metavar="DIR", required=True, help="folder for the page, tables and figures")
    command.add_argument(
        "--only", metavar="NAME", choices=tuple(EXPERIMENTS), help=f"only one experiment: {', '.join(EXPERIMENTS)}"
    )
    command.add_argument("--full", action="store_true", help="use the paper's number of points, not fewer")
    command.add_argument("--data", metavar="DIR", help="folder with the real data, for the experiment 'real'")
    command.add_argument(
        "--device", type=device, default="auto", metavar="DEV", help="auto, cpu, cuda or cuda:N (auto)"
    )
    add_talk(command)


def run(args: argparse.Namespace, console: Console) -> int:
    import importlib.util
    import time
    from pathlib import Path

    from .. import __version__
    from ..paper import experiment
    from ..paper.book import Book
    from ..paper.real_cases import CASES

    names = [args.only] if args.only else list(EXPERIMENTS)
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("the pictures need matplotlib: pip install 'ies-gpu[plot]'")
    without_umap = "umap" in names and importlib.util.find_spec("umap") is None
    if without_umap and args.only:
        raise ImportError(NO_UMAP)
    data = None if args.data is None else Path(args.data)
    if data is None and args.only == "real":
        raise WrongUse("--only real needs --data DIR (see 'ies-gpu reproduce --help')")
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"--data: the folder {data} does not exist; check the path")
    if data is not None and "real" in names and not any((data / case.file).exists() for case in CASES):
        raise FileNotFoundError(f"--data: {data} contains none of {', '.join(case.file for case in CASES)}")
    size = "at full size" if args.full else "at the default size (--full uses more points where the page says so)"
    words = f"Tables and figures of Chen and Meila (2019) from ies-gpu {__version__}: {', '.join(names)}, {size}."
    book = Book(args.output, introduction=words)
    if without_umap:  # say so now, not after the other experiments
        console.warning(f"not computed: {NO_UMAP}")
        book.text("umap-missing", "UMAP: not computed", f"{NO_UMAP[0].upper()}{NO_UMAP[1:]}.")
        names.remove("umap")
    seconds = {}
    for name in names:
        begin = time.perf_counter()
        try:
            experiment(name).run(book, full=args.full, device=args.device, data=data, progress=console.progress)
        except BaseException:  # Ctrl-C too
            if book.items:
                book.text(f"{name}-stopped", f"{name}: not finished", "It stopped or failed before the end.")
                book.write()
            raise
        seconds[name] = time.perf_counter() - begin
        book.write()  # what is done stays, whatever happens to the next one
    if not args.quiet:
        for name, taken in seconds.items():
            say(f"{name:<12}{taken:8.0f} s")
        say(f"{book.folder / 'index.html'}: {len(book.items)} tables and figures")
    return 0

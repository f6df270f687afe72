"""``ies-gpu fit``: choose coordinates for points in a file."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..files.remote import is_remote, shown
from ..findings import finding_of
from ..options import Options, check_on_cluster
from .console import Console, address, announce_compiling, file_name, say, say_json, with_size
from .molecule import add_molecule, is_molecule, read_frames
from .parser import (
    DETAILS,
    EXIT,
    add_command,
    add_options,
    add_reading,
    add_talk,
    check_different,
    check_file,
    chosen_of,
    count,
    in_flags,
    options_of,
    say_in_flags,
)
from .plot import add_color, by_name, check_picture, draw, for_picture, read_colors

if TYPE_CHECKING:
    from ..results.selection import Selection

MANY = 5_000  # points from which on a run may take long enough to be announced
# what is written, by its flag: the name of the argument, and the label in the summary
OUTPUTS = {
    "-o": ("output", "saved"),
    "--model": ("model", "model"),
    "--plot": ("plot", "picture"),
    "--coordinates": ("coordinates", "coordinates"),
    "--report": ("report", "report"),
}


def add(commands: Any) -> None:
    example = "ies-gpu fit points.npy -d 2 -s 2 --bandwidth 0.25 -o run.npz"
    fit = add_command(commands, "fit", run, "choose coordinates for points in a file", example, EXIT)
    about = "file or URL, one row per point (.npy, .csv, .parquet, .h5ad, ...)"
    fit.add_argument("points", metavar="POINTS", help=about)
    problem = fit.add_argument_group("the problem")
    add_options(problem, "intrinsic_dim", "subset_size", "bandwidth", "n_neighbors")
    about = "one map per part of the graph: writes run.part1.npz, run.part2.npz, ..."
    problem.add_argument("--each-part", action="store_true", help=about)
    option = fit.add_argument_group("what to write").add_argument
    option("-o", "--output", metavar="RUN.NPZ", help="file for the result")
    option("--coordinates", metavar="MAP.CSV", help="file for the chosen coordinates (.npy, .csv or .parquet)")
    option("--model", metavar="MODEL.NPZ", help="file for the model that 'ies-gpu transform' needs")
    option("--plot", metavar="MAP.PNG", help="file for a picture of the result (.png, .pdf or .svg)")
    option("--report", metavar="REPORT.HTML", help="file for an interactive report, a page for your browser")
    add_color(option, "POINTS")
    add_reading(fit.add_argument_group("the file").add_argument)
    add_molecule(fit.add_argument_group("a molecule").add_argument)
    add_options(fit.add_argument_group("details"), *DETAILS)
    add_options(fit.add_argument_group("the machine"), "device", "dtype", "memory_limit", "n_threads")
    option = fit.add_argument_group("a cluster (Dask)").add_argument
    option("--workers", type=count, metavar="N", help="compute in N processes of this machine")
    option("--scheduler", metavar="ADDRESS", help="compute on the workers of a scheduler, such as tcp://node1:8786")
    job = fit.add_argument_group("a job")
    about = "read the points, say how much memory and time it takes, and stop"
    job.add_argument("--dry-run", action="store_true", help=about)
    about = "TOML file with options, such as bandwidth = 0.25"
    job.add_argument("--config", metavar="JOB.TOML", help=about)
    add_options(job, "checkpoint", "resume")
    add_talk(fit, as_json="print the result as one JSON object")


def run(args: argparse.Namespace, console: Console) -> int:
    check_options(args)
    molecule = is_molecule(args)
    check_outputs(args)
    from ..results.assembly import with_index

    begin = time.perf_counter()
    console.progress("read", 0, 0)
    given = read_given(args, molecule)
    console.progress("read", 1, 1)
    if args.dry_run:
        from .dry_run import tell_needs

        tell_needs(given.points, args)
        return 0
    if molecule and not args.no_self_loops:
        console.note("frames of a molecule are noisy in many dimensions: --no-self-loops often gives a better map")
    if not args.output:
        console.note("no -o: the result will be shown but not saved")
    if not workers_read(args) and len(given.points) >= MANY:
        from .dry_run import say_how_long

        say_how_long(given.points, args, console)
    announce_compiling(console, args.device)
    with cluster_of(args, console) as client:
        found = select(given.points, args, console, client)
        parts = [with_index(part, given.rows) for part in (found if isinstance(found, list) else [found])]
        saved = [write(part, given, args, console) for part in parts]
        console.close()
        tell(parts, saved, args, time.perf_counter() - begin)
    return 0


# --- before the run --------------------------------------------------------------------------------------------------


def check_options(args: argparse.Namespace) -> None:
    """Check by the table that the options fit together, before anything is read."""
    wrong = args.parser.error
    cluster = "--workers" if args.workers else "--scheduler" if args.scheduler else ""
    if args.workers and args.scheduler:
        wrong("--workers starts a cluster here and --scheduler uses another; pass only one of them")
    if cluster and args.dry_run:
        wrong(f"--dry-run tells what one process needs; leave out {cluster}")
    if args.model and (args.bandwidth == "local" or (args.n_neighbors and not isinstance(args.bandwidth, float))):
        wrong("--model needs one bandwidth for all points; pass a number, or leave --neighbors out")
    if args.model and args.bandwidth == "auto":
        args.bandwidth = "fixed"  # which new points have a place with
    if args.workers and args.n_threads:
        wrong("--workers start with one thread each; leave out --threads, and start more workers instead")
    if args.each_part and (cluster or args.checkpoint or args.disconnected != "auto"):
        other = cluster or ("--checkpoint" if args.checkpoint else "--disconnected")
        wrong(f"{other} is for one map, and --each-part makes one per part; leave one of them out")
    if is_remote(args.checkpoint):
        wrong(f"--checkpoint must be a local folder, got {shown(args.checkpoint)}; mount a volume instead")
    try:
        options = Options(**asked_of(args))
        if cluster:
            check_on_cluster(options)
    except (TypeError, ValueError) as error:
        found = finding_of(error)
        wrong(str(error) if found is None else say_in_flags(found))


def check_outputs(args: argparse.Namespace) -> None:
    """Check that every output can be written, and is not an input or another output."""
    outputs = {flag: getattr(args, name) for flag, (name, _) in OUTPUTS.items()}
    check_different(args.parser, {"POINTS": args.points, **outputs})
    check_different(args.parser, {"--color": args.color, **outputs})
    if args.color and not (args.plot or args.report):
        args.parser.error("--color is for the pictures of --plot and --report; give one of them")
    if args.quiet and not (any(outputs.values()) or args.json or args.dry_run):
        args.parser.error("--quiet without -o would produce nothing; add -o or --json")
    check_file(args.parser, "-o", args.output, ".npz")
    check_file(args.parser, "--model", args.model, ".npz")
    check_picture(args.parser, "--plot", args.plot)
    check_file(args.parser, "--coordinates", args.coordinates)
    check_file(args.parser, "--report", args.report, ".html")


class Given(NamedTuple):
    """What was read: points, or the path of those that the workers read, and what is known about them."""

    points: Any
    rows: Any = None
    columns: Any = None
    features: str | None = None  # what the points are, of a molecule
    colors: dict[str, Any] | None = None


def read_given(args: argparse.Namespace, molecule: bool) -> Given:
    """Read the points and what colours them."""
    from ..files.points import read_table
    from ..validation import check_real_array

    values = None
    if molecule:
        points, features, values = read_frames(args)
        given = Given(points, features=features)
    elif workers_read(args):
        given = Given(args.points)
    else:
        given = Given(*read_table(args.points, **chosen_of(args)))
        if given.columns is not None:  # of what is no number, say in which column
            check_real_array(file_name(args.points), given.points, 2, columns=given.columns)
    if args.color is None:
        return given
    colors = read_colors(args.color, args.points, values)
    rows, n = len(next(iter(colors.values()))), len(given.points)
    if rows != n:
        about = f"--color {shown(args.color)} has {rows:,} rows, but there are {n:,} points"
        raise ValueError(f"{about}; give one row per point")
    return given._replace(colors=colors)


# --- the run ---------------------------------------------------------------------------------------------------------


def asked_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options for ``select_coordinates``; of a limit on memory, each worker here has its own."""
    return options_of(args) | ({"memory_limit": None} if args.workers else {})


def workers_read(args: argparse.Namespace) -> bool:
    """Return whether only workers read the points: a cluster, a file in rows, and nothing that needs them here."""
    if not (args.workers or args.scheduler) or is_remote(args.points):
        return False
    here = (args.model, args.plot, args.report, *chosen_of(args).values())
    return Path(args.points).suffix.lower() == ".npy" and not any(here)


@contextmanager
def cluster_of(args: argparse.Namespace, console: Console) -> Iterator[Any]:
    """Connect to the cluster that was asked for, or to none; its dashboard is announced."""
    if not (args.workers or args.scheduler):
        yield None
        return
    from ..cluster.client import connected

    memory = args.memory_limit if args.workers else None
    with connected(scheduler=args.scheduler, workers=args.workers, memory=memory) as client:
        if client.dashboard_link:
            console.note(f"the cluster's dashboard: {client.dashboard_link}")
        yield client


def select(points: Any, args: argparse.Namespace, console: Console, client: Any) -> Selection | list[Selection]:
    """Call ``select_coordinates`` with the options of ``fit``."""
    from ..select import select_coordinates, select_each_part

    asked = asked_of(args) | {"progress": console.progress}
    if args.each_part:
        del asked["disconnected"], asked["checkpoint"], asked["resume"]
        return select_each_part(points, **asked)
    return select_coordinates(points, **asked, client=client)


# --- after the run ---------------------------------------------------------------------------------------------------


def write(selection: Selection, given: Given, args: argparse.Namespace, console: Console) -> dict[str, str | None]:
    """Write what was asked for of one result; return the names of its files by flag."""
    if given.features is not None:
        selection.diagnostics["features"] = given.features
    own = {flag: part_name(getattr(args, name), selection) for flag, (name, _) in OUTPUTS.items()}
    if own["-o"]:
        console.progress("write", 0, 0)
        selection.save(own["-o"])
        console.progress("write", 1, 1)
    if own["--model"]:
        selection.model(given.points, feature_names=given.columns).save(own["--model"])
    if own["--coordinates"]:
        write_coordinates(selection, given, args, own["--coordinates"])
    colors = None if given.colors is None else by_name(given.colors, selection)
    if own["--plot"]:
        draw(selection, own["--plot"], colors=for_picture(colors, console))
    if own["--report"]:
        selection.to_html(own["--report"], points=given.points, colors=colors, title=file_name(args.points))
    return own


def write_coordinates(selection: Selection, given: Given, args: argparse.Namespace, path: str) -> None:
    """Write the chosen coordinates, with a row for every point of the input."""
    from ..cluster.source import open_rows
    from ..files.writing import write_table
    from ..results.text import in_input_rows

    n = int(open_rows(given.points).shape[0]) if workers_read(args) else len(given.points)
    write_table(path, in_input_rows(selection, n), selection.names, rows=given.rows)


def part_name(name: str | None, selection: Selection) -> str | None:
    """Return the file of a result, for one of several parts with its number: run.part1.npz for run.npz."""
    part = selection.diagnostics.get("part")
    if name is None or part is None:
        return name
    stem, ending = os.path.splitext(name)
    return f"{stem}.part{part['number']}{ending}"


def tell(parts: list[Selection], saved: list[dict[str, str | None]], args: argparse.Namespace, seconds: float) -> None:
    """Print the results and the names of their files."""
    from ..results.text import as_plain, summary

    if args.json:
        names = [{OUTPUTS[flag][0]: shown(own[flag] or "") or None for flag in ("-o", "--model")} for own in saved]
        plain = [as_plain(part, in_flags, **own) for part, own in zip(parts, names, strict=True)]
        say_json(plain if args.each_part else plain[0])
    for selection, own in zip(parts, saved, strict=True) if not (args.json or args.quiet) else ():
        say(summary(selection, say_in_flags), heading=True)
        say(f"  time            {seconds:.1f} s")
        for flag, (_, label) in OUTPUTS.items():
            if path := own[flag]:
                place = address(path) if flag == "--report" else shown(path)
                say(f"  {label:<16}{with_size(place, path)}")

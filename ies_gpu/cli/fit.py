"""``ies-gpu fit``: choose coordinates for points in a file."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..files.remote import is_remote, shown
from ..findings import finding_of
from ..options import Options, check_on_cluster
from .console import Console, announce_compiling, file_name, listed, say, say_json, tell_file
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
    about = "file or URL, one row per point (.npy, .csv, .h5, ...)"
    fit.add_argument("points", metavar="POINTS", help=about)
    add_options(fit.add_argument_group("the problem"), "intrinsic_dim", "subset_size", "bandwidth", "n_neighbors")
    option = fit.add_argument_group("what to write").add_argument
    option("-o", "--output", metavar="RUN.NPZ", help="file for the result")
    option("--coordinates", metavar="MAP.CSV", help="file for the chosen coordinates (.npy or .csv)")
    option("--model", metavar="MODEL.NPZ", help="file for the model that 'ies-gpu transform' needs")
    option("--plot", metavar="MAP.PNG", help="file for a picture of the result (.png, .pdf or .svg)")
    option("--report", metavar="REPORT.HTML", help="file for an interactive report, a page for your browser")
    add_color(option, "POINTS")
    add_reading(fit.add_argument_group("the file").add_argument)
    add_molecule(fit.add_argument_group("a molecule").add_argument)
    add_options(fit.add_argument_group("details"), *DETAILS)
    add_options(fit.add_argument_group("the machine"), "device", "dtype", "memory_limit", "n_threads")
    about = "compute on the workers of a Dask scheduler, such as tcp://node1:8786"
    fit.add_argument_group("a cluster").add_argument("--scheduler", metavar="ADDRESS", help=about)
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
    if molecule and args.self_loops:
        console.note("frames of a molecule are noisy in many dimensions: --no-self-loops often gives a better map")
    if not args.output:
        console.note("no -o: the result will be shown but not saved")
    if not workers_read(args) and len(given.points) >= MANY:
        from .dry_run import say_how_long

        say_how_long(given.points, args, console)
    announce_compiling(console, args.device)
    with cluster_of(args, console) as client:
        selection = with_index(select(given.points, args, console, client), given.rows)
        write(selection, given, args, console)
        console.close()
        tell(selection, args, time.perf_counter() - begin)
    return 0


# --- before the run --------------------------------------------------------------------------------------------------


def check_options(args: argparse.Namespace) -> None:
    """Check by the table that the options fit together, before anything is read."""
    wrong = args.parser.error
    if args.scheduler and args.dry_run:
        wrong("--dry-run tells what one process needs; leave out --scheduler")
    if args.model and (args.bandwidth == "local" or (args.n_neighbors and not isinstance(args.bandwidth, float))):
        wrong("--model needs one bandwidth for all points; pass a number, or leave --neighbors out")
    if args.model and args.bandwidth == "auto":
        args.bandwidth = "fixed"  # which new points have a place with
    if is_remote(args.checkpoint):
        wrong(f"--checkpoint must be a local folder, got {shown(args.checkpoint)}; mount a volume instead")
    try:
        options = Options(**options_of(args))
        if args.scheduler:
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


def workers_read(args: argparse.Namespace) -> bool:
    """Return whether only workers read the points: a cluster, a file in rows, and nothing that needs them here."""
    here = (args.model, args.plot, args.report, *chosen_of(args).values())
    in_rows = not is_remote(args.points) and Path(args.points).suffix.lower() == ".npy"
    return bool(args.scheduler) and in_rows and not any(here)


@contextmanager
def cluster_of(args: argparse.Namespace, console: Console) -> Iterator[Any]:
    """Connect to the cluster that was asked for, or to none; its dashboard is announced."""
    if not args.scheduler:
        yield None
        return
    from ..cluster.client import connected

    with connected(scheduler=args.scheduler) as client:
        if client.dashboard_link:
            console.note(f"the cluster's dashboard: {client.dashboard_link}")
        yield client


def select(points: Any, args: argparse.Namespace, console: Console, client: Any) -> Selection:
    """Call ``select_coordinates`` with the options of ``fit``."""
    from ..select import select_coordinates

    return select_coordinates(points, **options_of(args), progress=console.progress, client=client)


# --- after the run ---------------------------------------------------------------------------------------------------


def write(selection: Selection, given: Given, args: argparse.Namespace, console: Console) -> None:
    """Write what was asked for."""
    if given.features is not None:
        selection.diagnostics["features"] = given.features
    if args.output:
        console.progress("write", 0, 0)
        selection.save(args.output)
        console.progress("write", 1, 1)
    if args.model:
        selection.model(given.points, feature_names=given.columns).save(args.model)
    if args.coordinates:
        from ..cluster.source import open_rows
        from ..files.writing import write_table
        from ..results.text import in_input_rows

        n = int(open_rows(given.points).shape[0]) if workers_read(args) else len(given.points)
        write_table(args.coordinates, in_input_rows(selection, n), selection.names, rows=given.rows)
    colors = None if given.colors is None else by_name(given.colors, selection)
    if args.plot:
        draw(selection, args.plot, colors=for_picture(colors, console))
    if args.report:
        selection.to_html(args.report, points=given.points, colors=colors, title=file_name(args.points))


def tell(selection: Selection, args: argparse.Namespace, seconds: float) -> None:
    """Print the result and the names of its files."""
    from ..results.text import as_plain, summary

    if args.json:
        names = {name: shown(getattr(args, name) or "") or None for name in ("output", "model")}
        say_json(as_plain(selection, in_flags, **names))
    elif not args.quiet:
        say(summary(selection, say_in_flags))
        listed("time", f"{seconds:.1f} s")
        for flag, (name, label) in OUTPUTS.items():
            if path := getattr(args, name):
                tell_file(label, path, browse=flag == "--report")

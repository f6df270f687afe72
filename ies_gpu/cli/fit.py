"""``ies-gpu fit``: choose coordinates for points in a file."""

from __future__ import annotations

import argparse
import re
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..files.remote import is_remote, shown
from ..findings import finding_of
from ..options import Options, check_on_cluster
from . import parser
from .console import Console, address, file_name, listed, say, say_json
from .saved import check_picture, draw

if TYPE_CHECKING:
    from ..results.selection import Selection

MORE = """
JOB.TOML has options (bandwidth = 0.25), and so have environment variables
(IES_GPU_BANDWIDTH=0.25). Flags override variables, and variables the file.
"""
PROBLEM = ("intrinsic_dim", "subset_size", "bandwidth", "n_neighbors")
DETAILS = (
    "n_components", "radius", "self_loops", "metric", "alpha", "zeta", "percentile", "search", "untangle", "scale",
    "diffusion_time", "disconnected", "tol", "random_state",
)  # fmt: skip
MANY = 5_000  # points from which on a run may take long enough to be announced
FEATURES = ("angles", "distances", "torsions")  # of a molecule
# what is written, by its flag: the name of the argument, the label in the summary, an example, its content
OUTPUTS = {
    "-o": ("output", "saved", "RUN.NPZ", "the result"),
    "--coordinates": ("coordinates", "coordinates", "MAP.CSV", "the chosen coordinates (.npy or .csv)"),
    "--model": ("model", "model", "MODEL.NPZ", "the model that 'ies-gpu transform' needs"),
    "--plot": ("plot", "picture", "MAP.PNG", "a picture of the result (.png, .pdf or .svg)"),
    "--report": ("report", "report", "REPORT.HTML", "an interactive report, a page for your browser"),
}


def add(commands: Any) -> None:
    example = "ies-gpu fit points.npy -d 2 -s 2 --bandwidth 0.25 -o run.npz"
    fit = parser.add_command(commands, "fit", run, "choose coordinates for points in a file", example, MORE)
    fit.add_argument("points", metavar="POINTS", help="file or URL, one row per point (.npy, .csv, .h5, ...)")
    parser.add_options(fit.add_argument_group("the problem"), *PROBLEM)
    option = fit.add_argument_group("what to write").add_argument
    for flag, (name, _, metavar, content) in OUTPUTS.items():
        option(*dict.fromkeys((flag, f"--{name}")), metavar=metavar, help=f"file for {content}")
    parser.add_reading(fit.add_argument_group("the file").add_argument)
    option = fit.add_argument_group("a molecule").add_argument
    about = "file with the atoms of a trajectory such as traj.xtc (needs MDAnalysis)"
    option("--topology", metavar="TOP.PDB", help=about)
    option("--atoms", type=atoms, metavar="A,B-C", help="atoms to use, by number from 0, such as 0-21 (all)")
    about = "what describes the shape of a frame (angles); only torsions tell it from its mirror image"
    option("--features", choices=FEATURES, help=about)
    parser.add_options(fit.add_argument_group("details"), *DETAILS)
    parser.add_options(fit.add_argument_group("the machine"), "device", "dtype", "memory_limit", "n_threads")
    about = "compute on the workers of a Dask scheduler, such as tcp://node1:8786"
    fit.add_argument_group("a cluster").add_argument("--scheduler", metavar="ADDRESS", help=about)
    job = fit.add_argument_group("a job")
    job.add_argument("--dry-run", action="store_true", help="say how much memory and time it takes, and stop")
    job.add_argument("--config", metavar="JOB.TOML", help="TOML file with options, such as bandwidth = 0.25")
    parser.add_options(job, "checkpoint", "resume")
    parser.add_talk(fit, as_json="print the result as one JSON object")


def atoms(text: str) -> tuple[int, ...]:
    """Return the numbers in a list of numbers and ranges, both ends included: 0-8,12."""
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise argparse.ArgumentTypeError(f"must be numbers from 0 and rising ranges, such as 0-8,12, got {text!r}")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(found)


def run(args: argparse.Namespace, console: Console) -> int:
    check(args)
    molecule = is_molecule(args)
    from ..results.assembly import with_index

    begin = time.perf_counter()
    console("read", 0, 0)
    given = read_given(args, molecule)
    console("read", 1, 1)
    if args.dry_run:
        from .dry_run import tell_needs

        tell_needs(given.points, args)
        return 0
    if molecule and args.self_loops:
        console.write("frames of a molecule are noisy in many dimensions: --no-self-loops often gives a better map")
    if not args.output:
        console.write("no -o: the result will be shown but not saved")
    if not workers_read(args) and len(given.points) >= MANY:
        from .dry_run import estimate, say_how_long

        with suppress(ValueError):  # what does not work is said by the run itself
            say_how_long(estimate(given.points, args)[1].seconds, console)
    from ..select import select_coordinates

    cluster: Any = nullcontext()
    if args.scheduler:
        from ..cluster.team import connected

        cluster = connected(args.scheduler)
    with cluster as client:
        if client is not None and client.dashboard_link:
            console.write(f"the cluster's dashboard: {client.dashboard_link}")
        found = select_coordinates(given.points, **parser.options_of(args), progress=console, client=client)
        finish(with_index(found, given.rows), given, args, console, begin)
    return 0


def check(args: argparse.Namespace) -> None:
    """Check before anything is read that the options fit together, and that every output can be written."""
    wrong, outputs = args.parser.error, {flag: getattr(args, name) for flag, (name, *_) in OUTPUTS.items()}
    if args.scheduler and args.dry_run:
        wrong("--dry-run tells what one process needs; leave out --scheduler")
    if args.model and (args.bandwidth == "local" or (args.n_neighbors and not isinstance(args.bandwidth, float))):
        wrong("--model needs one bandwidth for all points; pass a number, or leave --neighbors out")
    if args.model and args.bandwidth == "auto":
        args.bandwidth = "fixed"  # which new points have a place with
    try:
        options = Options(**parser.options_of(args))
        if args.scheduler:
            check_on_cluster(options)
    except (TypeError, ValueError) as error:
        found = finding_of(error)
        wrong(str(error) if found is None else parser.say_in_flags(found))
    parser.check_different(args.parser, {"POINTS": args.points, **outputs})
    for flag, endings in (("-o", [".npz"]), ("--model", [".npz"]), ("--coordinates", []), ("--report", [".html"])):
        parser.check_file(args.parser, flag, outputs[flag], *endings)
    if args.plot:
        check_picture(args.parser, "--plot", args.plot)


def is_molecule(args: argparse.Namespace) -> bool:
    """Return whether the points are frames of a molecule; refuse what does not go with what they are."""
    from ..files.points import holds_molecule

    found, wrong = args.topology is not None or (args.key is None and holds_molecule(args.points)), args.parser.error
    given = [option for option, value in (("--atoms", args.atoms), ("--features", args.features)) if value is not None]
    if given and not found:
        wrong(f"{shown(args.points)} is no molecule; leave out {' and '.join(given)}")
    if found and args.model:
        way = "new frames would need the same principal components; docs/data.md shows how in Python"
        wrong(f"--model does not work with a molecule, because {way}")
    if found and any(value is not None for value in parser.chosen_of(args).values()):
        wrong("--key, --columns and --index-col are for tables, not for molecules")
    if found and is_remote(args.points):
        wrong(f"a molecule must be a local file, got {shown(args.points)}; download it first")
    return found


class Given(NamedTuple):
    """What was read: points, or the path of those that the workers read, and what is known about them."""

    points: Any
    rows: Any = None
    columns: Any = None
    features: str | None = None  # what the points are, of a molecule


def read_given(args: argparse.Namespace, molecule: bool) -> Given:
    """Read the points, or name the file that the workers read."""
    if molecule:
        from ..datasets.molecules import load_molecule, principal_components

        frames = load_molecule(args.points, topology=args.topology, atoms=args.atoms)
        points, features = principal_components(frames, args.features or "angles")
        return Given(points, features=features)
    if workers_read(args):
        return Given(args.points)
    from ..files.points import read_table
    from ..validation import check_real_array

    given = Given(*read_table(args.points, **parser.chosen_of(args)))
    if given.columns is not None:  # of what is no number, say in which column
        check_real_array(file_name(args.points), given.points, 2, columns=given.columns)
    return given


def workers_read(args: argparse.Namespace) -> bool:
    """Return whether only workers read the points: a cluster, a file in rows, and nothing that needs them here."""
    here = (args.model, args.plot, args.report, *parser.chosen_of(args).values())
    in_rows = not is_remote(args.points) and Path(args.points).suffix.lower() == ".npy"
    return bool(args.scheduler) and in_rows and not any(here)


def finish(selection: Selection, given: Given, args: argparse.Namespace, console: Console, begin: float) -> None:
    """Write what was asked for; print the result and the names of its files."""
    from ..files.writing import write_table
    from ..results.text import as_plain, in_input_rows, summary

    if given.features is not None:
        selection.diagnostics["features"] = given.features
    if args.output:
        console("write", 0, 0)
        selection.save(args.output)
        console("write", 1, 1)
    if args.model:
        selection.model(given.points, feature_names=given.columns).save(args.model)
    if args.coordinates:
        from ..cluster.blocks import open_rows

        n = int(open_rows(given.points).shape[0]) if workers_read(args) else len(given.points)
        write_table(args.coordinates, in_input_rows(selection, n), selection.names, rows=given.rows)
    if args.plot:
        draw(selection, args.plot)
    if args.report:
        selection.to_html(args.report, points=given.points, title=file_name(args.points))
    console.close()
    if args.json:
        names = {name: shown(getattr(args, name) or "") or None for name in ("output", "model")}
        say_json(as_plain(selection, parser.in_flags, **names))
    elif not args.quiet:
        say(summary(selection, parser.say_in_flags))
        listed("time", f"{time.perf_counter() - begin:.1f} s")
        for flag, (name, label, *_) in OUTPUTS.items():
            if path := getattr(args, name):
                listed(label, address(path) if flag == "--report" else shown(path))

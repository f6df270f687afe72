"""``ies-gpu data`` and ``ies-gpu demo``: the paper's data sets, and its opening example in words and pictures."""

import argparse
import os
import shlex
from pathlib import Path
from typing import Any

from ..constraints import Integer, Seed
from .console import Console, address, say
from .parser import add_command, add_talk, check_file, read_by


def add(commands: Any) -> None:
    about = "generate one of the paper's data sets, or list them"
    data = add_command(commands, "data", run_data, about, "ies-gpu data D1 -o d1.npy")
    data.add_argument("name", metavar="NAME", nargs="?", help="D1 to D13; without it, list them")
    data.add_argument("-o", "--output", metavar="FILE.NPY", help=".npy or .csv file (d1.npy for D1)")
    data.add_argument("-n", "--n", type=read_by(Integer(1)), metavar="N", help="number of points (as in the paper)")
    data.add_argument("--seed", type=read_by(Seed(0)), default=0, metavar="N", help="random seed (0)")
    add_talk(data, progress=False)
    demo = add_command(commands, "demo", run_demo, "see it work on a long strip", "ies-gpu demo -o my-folder")
    demo.add_argument("-o", "--output", metavar="DIR", default="ies-gpu-demo", help="output folder (ies-gpu-demo)")
    enough = read_by(Integer(22))  # for 20 eigenvectors
    demo.add_argument("-n", "--n", type=enough, metavar="N", default=10_000, help="number of points (10,000)")
    add_talk(demo)


def run_data(args: argparse.Namespace, console: Console) -> int:
    from ..choice.criterion import names_text
    from ..datasets.synthetic import TABLE, bandwidth_for, load
    from ..files.writing import write_table

    if args.name is None:
        if args.output:
            args.parser.error("which data set? put its NAME before -o")
        say("name  manifold                  points  d  s  bandwidth  the paper chooses")
        for name, (title, _, _, bandwidth, d, s, chosen, n) in TABLE.items():
            say(f"{name:<5} {title:<24} {n:>7,}  {d}  {s}  {bandwidth:>9g}  {names_text(k - 1 for k in chosen)}")
        say("\nGenerate one with: ies-gpu data D1 -o d1.npy")
        return 0
    name = args.name.upper()
    if name not in TABLE:
        args.parser.error(f"there is no data set {args.name!r}; choose from {', '.join(TABLE)}")
    output = args.output or f"{name.lower()}.npy"
    check_file(args.parser, "-o", output)
    if not args.output and os.path.exists(output):
        args.parser.error(f"there is a file {output} already; name another one with -o")
    data = load(name, n_samples=args.n, random_state=args.seed)
    write_table(output, data.X, [f"x{k + 1}" for k in range(data.X.shape[1])])
    say(f"{output}: {len(data.X):,} points with {data.X.shape[1]} columns ({name}, {data.title})")
    say(f"the paper chooses {names_text(data.reference_subset)}")
    bandwidth = bandwidth_for(name, args.n or TABLE[name][-1])
    sizes = f"-d {data.intrinsic_dim} -s {data.subset_size} --bandwidth {bandwidth:.2g}"
    run = f"{output.rpartition('.')[0]}-run.npz"  # a URL stays one
    say(f"  ies-gpu fit {shlex.quote(output)} {sizes} -o {shlex.quote(run)}")
    return 0


def run_demo(args: argparse.Namespace, console: Console) -> int:
    """Generate the strip D1, choose its coordinates, and explain what happened, line by line."""
    from ..datasets.synthetic import bandwidth_for, load
    from ..files.writing import write_table
    from ..select import select_coordinates

    n, folder, tell = args.n, Path(args.output), (lambda _: None) if args.quiet else say
    folder.mkdir(parents=True, exist_ok=True)
    data = load("D1", n_samples=n)
    bandwidth = float(f"{bandwidth_for('D1', n):.2g}")
    tell(f"A strip of {n:,} noisy points, six times as long (x) as it is wide (y).")
    tell("Its diffusion map has phi1, phi2, ... from slow to fast. Which two give a flat map? Usually: the first two.")
    tell(f"  select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth={bandwidth:g})")
    known: dict[str, Any] = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": bandwidth}
    selection = select_coordinates(data.X, **known, progress=console)
    tell(f"\nThe usual choice: {selection.judgement['needed'].text}.")
    tell(f"The search chooses {', '.join(selection.names)}: {selection.judgement['rank'].text}.")
    if selection.subset != data.reference_subset:
        tell("The paper reports phi1, phi7. This sample gives another set: close eigenvalues swap places.")
    write_table(folder / "points.npy", data.X)
    selection.save(folder / "run.npz")
    # the width first, since that is what the leading coordinates lose
    colors = {"true y (width)": data.truth[:, 1], "true x (length)": data.truth[:, 0]}
    selection.to_html(folder / "report.html", points=data.X, colors=colors, title="A long strip")
    tell(f"\nIn {folder}:\n  points.npy      the points")
    tell(f"  run.npz         the result; to see it: ies-gpu show {shlex.quote(str(folder / 'run.npz'))}")
    tell("  report.html     the interactive report, for your browser:")
    tell(f"                  {address(folder / 'report.html')}")
    tell("\nNext, your own points. If you know the parameters, pass them: it is faster.")
    tell("  ies-gpu fit your_points.npy -o run.npz")
    tell(f"  ies-gpu fit your_points.npy -d 2 -s 2 --bandwidth {bandwidth:g} -o run.npz")
    return 0

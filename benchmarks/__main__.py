"""``python -m benchmarks [--only STAGE,...] [-o FOLDER]``: ours, the plain baseline and peers, one table, one plot.

Each stage runs in a process of its own, so that peaks of memory do not mix. Ratios are of two times taken in one
process on the same threads; seconds on a shared machine are worth little by themselves.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from . import own_graphs, peers, stages

LONGEST = 900  # seconds for one stage
COMMANDS = {**stages.ALL, **own_graphs.ALL, "peers": peers.peers}


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), cpu)
    found = {}
    for package in ("ies-gpu", "numpy", "scipy", "numba", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": today, "cpu": cpu, "cores": cores, "python": platform.python_version(), "versions": found}


def verdict(row: dict[str, Any]) -> str:
    """Goal and whether it was reached: a ratio to reach, or a number to stay below where there is no peer."""
    if row["goal"] is None or row["ours"] is None:
        return ""
    if row["ratio"] is None and row["peer"] != "none":
        return f"{row['goal']:g}x: not measured"
    if row["ratio"] is None:
        return f"at most {row['goal']:g}: {'reached' if row['ours'] <= row['goal'] else 'missed'}"
    return f"{row['goal']:g}x: {'reached' if row['ratio'] >= row['goal'] else 'missed'}"


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| stage | peer | ours, s | peer, s | ratio (of processor time) | goal | peak |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        theirs = "" if r["theirs"] is None else f"{r['theirs']:.3g}"
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.3g}"
        ratio += f" ({r['processor']['ratio']:.3g})" if r.get("processor") else ""
        peak = f"{r['peak'] / 1e9:.2f} GB" if r.get("peak") else ""
        peer = "" if r["peer"] == "none" else r["peer"] + (f" ({r['reason']})" if r.get("reason") else "")
        ours = "" if r["ours"] is None else f"{r['ours']:.3g}"
        lines.append(f"| {r['stage']} | {peer} | {ours} | {theirs} | {ratio} | {verdict(r)} | {peak} |")
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], folder: Path) -> None:
    """Draw time against n by stage."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    grown = [r for r in rows if r["stage"].startswith("growth,")]
    if grown:
        figure, axes = plt.subplots(figsize=(7.6, 4.8), layout="constrained")
        for stage in grown[0]["seconds"]:
            axes.loglog([r["n"] for r in grown], [r["seconds"][stage] for r in grown], "o-", label=stage)
        axes.loglog([r["n"] for r in grown], [r["ours"] for r in grown], "ko-", lw=2, label="all")
        axes.set(xlabel="points n (degree about 110)", ylabel="seconds", title="Time by stage, 2 cores")
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
        figure.savefig(folder / "growth.png", dpi=120)


def rows_of(worker: list[str], stage: str) -> list[dict[str, Any]]:
    """What a worker process measured, or one row that says why there is nothing."""
    try:
        done = subprocess.run(worker, stdout=subprocess.PIPE, text=True, check=True, timeout=LONGEST)
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        why = f"stopped after {LONGEST} s" if isinstance(error, subprocess.TimeoutExpired) else "failed, see stderr"
        return [stages.row(stage, why, None, None, None)]


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python -m benchmarks")
    parser.add_argument("--only", default=",".join(COMMANDS), help="stages, separated by commas")
    parser.add_argument("-o", "--output", default="benchmarks/results", help="folder for the table, JSON and plot")
    parser.add_argument("--stage", help=argparse.SUPPRESS)  # a worker process
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(COMMANDS[options.stage]()))
        return
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    where, rows = machine(), []
    for stage in options.only.split(","):
        print(f"{stage} ...", file=sys.stderr, flush=True)
        worker = [sys.executable, "-m", "benchmarks", "--stage", stage]
        new = rows_of(worker, stage)
        rows += new
        print(table(new), flush=True)
        heading = f"{where['date']}, {where['cpu']}, {where['cores']} cores, {where['versions']}\n\n"
        whole = json.dumps({"machine": where, "rows": rows}, indent=1)
        replace(folder / "results.json", whole + "\n")
        replace(folder / "results.md", heading + table(rows) + "\n")
    plot(rows, folder)


if __name__ == "__main__":
    main()

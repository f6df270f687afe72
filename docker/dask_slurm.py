"""Workers as SLURM jobs, and a fit on them: ``python docker/dask_slurm.py /shared/points.npy /shared/map.zarr``.

Needs ``pip install 'ies-gpu[dask]' dask-jobqueue`` in an environment that all nodes see. Start it on a login node or in
a small job of its own: it holds the scheduler. ``--print`` shows the script that each job would run, and ends.
"""

from __future__ import annotations

import argparse
import sys

import dask
from dask.distributed import Client
from dask_jobqueue import SLURMCluster

from ies_gpu import select_coordinates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("points")
    parser.add_argument("coordinates", help="what the workers write: .zarr")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--print", action="store_true", dest="shown")
    given = parser.parse_args()
    dask.config.set({"distributed.scheduler.work-stealing": False})  # tasks stay with their blocks
    with SLURMCluster(
        queue="compute",
        cores=4,
        processes=4,  # one worker process per core: each runs its tasks in one thread
        memory="64GB",
        walltime="04:00:00",
        job_script_prologue=[
            "export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1",
            # workers keep the memory of small arrays that they free, and are not watched a hundred times a second
            "export MALLOC_MMAP_THRESHOLD_=4194304 MALLOC_TRIM_THRESHOLD_=16777216",
            "export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False",
        ],
    ) as cluster:
        if given.shown:
            sys.stdout.write(cluster.job_script())
            return
        cluster.scale(jobs=given.jobs)
        with Client(cluster) as client:
            client.wait_for_workers(4 * given.jobs)
            found = select_coordinates(
                given.points, intrinsic_dim=2, subset_size=2, bandwidth=0.02, client=client,
                progress=True,
            )  # fmt: skip
            sys.stdout.write(f"{found}\n")
            found.embedding.to_zarr(given.coordinates)


if __name__ == "__main__":
    main()

"""Runs that are killed or stopped at any time go on from what they had finished."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from ies_gpu import datasets, load
from tests.comparison import resumed
from tests.thorough import first_of

from .conftest import OPTIONS

pytestmark = pytest.mark.usefixtures("plain_kernels")


def job(folder, *more, start=("-m", "ies_gpu")):
    command = [sys.executable, *start, "fit", str(folder / "points.npy"), "-o", str(folder / "run.npz")]
    return [*command, "-d", "2", "-s", "2", "--checkpoint", str(folder / "saved"), "--resume", "--quiet", *more]


KILLER = """
import json, os, random, shutil, signal, sys, time
import numpy as np
from ies_gpu import load, select_coordinates
from tests.comparison import assert_equal_selections, resumed
folder, kills, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
X, chance = np.load(folder + "/points.npy"), random.Random(0)
reference = select_coordinates(X, **options)  # uninterrupted; loads all kernels too
reference.save(folder + "/reference.npz")
reference = load(folder + "/reference.npz")

def child(saved):
    number = os.fork()
    if number == 0:
        found = select_coordinates(X, **options, checkpoint=f"{folder}/{saved}", resume=True)
        found.save(folder + "/run.npz")
        os._exit(0)
    return number

def is_running(number):
    return os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

begin = time.perf_counter()
assert os.waitpid(child("first"), 0)[1] == 0
duration, stages = time.perf_counter() - begin, []
while len(stages) < kills:
    os.unlink(folder + "/run.npz")
    number = child("saved")
    # a random time after the start, or after a stage
    behind = chance.choice(["", "laplacian", "eigenvectors", "tangents"])
    while behind and not os.path.exists(f"{folder}/saved/{behind}.npz") and is_running(number):
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.2 * duration))
    os.kill(number, signal.SIGKILL)
    killed = os.waitpid(number, 0)[1] == signal.SIGKILL
    if killed:  # a copy is resumed to its end; the job itself is killed again, a little further on
        os.makedirs(folder + "/saved", exist_ok=True)
        shutil.copytree(folder + "/saved", folder + "/copy")
        assert os.waitpid(child("copy"), 0)[1] == 0
        shutil.rmtree(folder + "/copy")
    else:
        shutil.rmtree(folder + "/saved")
    found = load(folder + "/run.npz")
    assert_equal_selections(reference, found)
    if killed:
        stages.append(" ".join(resumed(found)))
print(json.dumps({stage: stages.count(stage) for stage in sorted(set(stages))}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL is POSIX")
@pytest.mark.parametrize(("kills", "n", "kernels"), [
    (6, 900, "plain"), pytest.param(100, 20_000, "", marks=pytest.mark.slow),
])  # fmt: skip
def test_sigkill_at_random_times(tmp_path, kills, n, kernels):
    """Of processes that are forked once all is loaded, resumed, and compared with a whole run."""
    np.save(tmp_path / "points.npy", datasets.load("D1", n_samples=n).X)
    # the second time at a degree of about 100; of Numba's ways to use threads the one that survives a fork
    more = {} if n == 900 else {"bandwidth": 0.14, "n_components": 6, "n_threads": 1}
    layer = {"NUMBA_THREADING_LAYER": "workqueue", "PYTHONPATH": os.getcwd(), "IES_GPU_KERNELS": kernels}
    command = [sys.executable, "-c", KILLER, str(tmp_path), str(kills), json.dumps(OPTIONS | more)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | layer)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # how many were resumed behind which stages
    assert sum(found.values()) == kills
    assert any(("tangents" in stages) if kills > 6 else stages for stages in found), f"too few stages: {found}"


STRUCK = """
import os, sys
from ies_gpu.cli import program

class Log:
    def __getattr__(self, name):
        return getattr(sys.__stderr__, name)

    def write(self, text):
        sys.__stderr__.write(text)
        if '"eigenvectors"' in text:
            os.kill(os.getpid(), {number})

sys.stderr = Log()
program()
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", first_of(signal.SIGTERM, signal.SIGINT))
def test_signals_leave_the_checkpoint_intact(points, tmp_path, number):
    """The signal comes as soon as the eigenvectors are begun."""
    status = 128 + number
    np.save(tmp_path / "points.npy", points)
    command = job(
        tmp_path, "--bandwidth", "0.6", "--log-format", "json", start=("-c", STRUCK.format(number=int(number)))
    )
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == status and "Traceback" not in done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["status"] == status
    assert not (tmp_path / "run.npz").exists()
    assert sorted(os.listdir(tmp_path / "saved")) == [".lock", "graph.npz", "laplacian.npz"]
    subprocess.run(job(tmp_path, "--bandwidth", "0.6"), check=True)
    assert resumed(load(tmp_path / "run.npz")) == ["graph", "laplacian"]

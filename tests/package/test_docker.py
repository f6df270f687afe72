"""The images and the ready jobs: facts that must hold before anybody starts one of them.

docker/verify.sh builds and runs the images; it needs root and minutes, so it is not part of the tests.
"""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import yaml

from ies_gpu.cli import build_parser
from ies_gpu.resources import estimate_resources
from tests.extras import needed
from tests.real_cupy import missing

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USER = "10001:10001"


@pytest.mark.parametrize("name", ["Dockerfile", "docker/cpu.Dockerfile"])
def test_an_image_is_careful(name):
    """An ordinary user, one writable place, nothing of the build but its materials, no server of anybody else."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if line.strip() and not line.startswith("#")]
    steps = [line.split(maxsplit=1) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]
    last = steps[max(at for at, (word, _) in enumerate(steps) if word == "FROM") :]
    stage = {word: [rest for other, rest in last if other == word] for word, _ in last}
    assert stage["USER"] == [USER] and stage["ENTRYPOINT"] == ['["ies-gpu"]']  # numeric, for runAsNonRoot
    (volume,) = json.loads(stage["VOLUME"][0])
    settings = dict(part.split("=", 1) for rest in stage["ENV"] for part in rest.split())
    written = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")
    assert all(Path(settings[key]).is_relative_to(volume) for key in written)
    assert re.search(rf"install -d -m 1777 .*{volume}\b", stage["RUN"][0])  # or a new volume belongs to root
    assert all(rest.startswith("--from=") for rest in stage["COPY"])
    assert any(rest.startswith("--from=materials /bom.cdx.json ") for rest in stage["COPY"])
    assert not re.search(r"index-url|PIP_(?!NO)|trusted-host|--cert|https?://", "\n".join(map(" ".join, steps)))
    extras = dict(rest.split("=", 1) for word, rest in steps if word == "ARG")["EXTRAS"].split(",")
    needs = [*PROJECT["dependencies"], *(each for extra in extras for each in PROJECT["optional-dependencies"][extra])]
    assert all("<" in each for each in needs)  # bounded versions
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is not None:  # of the extra test-docker
        subprocess.run([hadolint, ROOT / name], check=True)


@pytest.mark.thorough
@pytest.mark.skipif(bool(missing()), reason=missing() or "CuPy")
def test_kernels_compiled_in_advance_are_those_that_a_run_asks_for(tmp_path):
    """Under the names that CuPy gives them on an sm_80; that a GPU takes them from there is not shown."""
    command = [sys.executable, DOCKER / "compile_kernels.py", tmp_path, "80"]
    counts = ast.literal_eval(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    files = len(list(tmp_path.iterdir()))
    assert counts == {"compiled": files, "found": files}


def test_pages_comments_and_services_give_commands_that_work():
    page, compose = ((DOCKER / name).read_text() for name in ("README.md", "compose.yaml"))
    blocks = "".join(re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)).replace("\\\n", " ")
    commands = re.findall(r"^docker run .* ies-gpu(?::\w+)? (.*)$", blocks, re.MULTILINE)
    comments = re.findall(r"^# docker compose .* run --rm (?:gpu|cpu) (.*)$", compose, re.MULTILINE)
    assert len(commands) >= 3 and len(comments) == 2
    services = yaml.safe_load(compose)["services"].values()
    for service in services:
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["user"] == "${UID:-10001}:${GID:-10001}"
    for command in (*map(str.split, commands + comments), *(service["command"] for service in services)):
        build_parser().parse_args(command)


def parsed(command):
    """The command as the real parser takes it; it must be one that survives being killed."""
    args = build_parser("fit").parse_args([str(part) for part in command])
    assert Path(args.checkpoint).is_relative_to("/checkpoint") and args.resume and args.log_format == "json"
    assert args.output.endswith(".npz")
    return args


def asks_rightly(name, asked):
    (sizes,) = re.findall(r"estimate_resources\(n=([\d_]+), dim=(\d+), degree=(\d+)\)", (DOCKER / name).read_text())
    told = estimate_resources(**dict(zip(("n", "dim", "degree"), map(int, sizes), strict=True))).request_bytes
    return told <= asked <= 2 * told


def kubernetes():
    claim, job = yaml.safe_load_all((DOCKER / "kubernetes-job.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    allowed = container["securityContext"]
    assert pod["securityContext"]["runAsUser"] == 10001 and allowed["readOnlyRootFilesystem"]
    assert not allowed["allowPrivilegeEscalation"]
    validator = needed("kubernetes_validate", "test-docker")
    for document in (claim, job):
        validator.validate(document, "1.31", strict=True)
    memory = float(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 2**30
    return container["args"], memory, "kubernetes-job.yaml"


def amazon():
    job = json.loads((DOCKER / "aws-batch.json").read_text())
    container = job["containerProperties"]
    assert container["user"] == USER and container["readonlyRootFilesystem"] and not container["privileged"]
    session = needed("botocore.session", "test-docker").get_session()
    shape = session.get_service_model("batch").operation_model("RegisterJobDefinition").input_shape
    report = needed("botocore.validate", "test-docker").ParamValidator().validate(job, shape)
    assert not report.has_errors(), report.generate_report()
    (memory,) = (float(need["value"]) for need in container["resourceRequirements"] if need["type"] == "MEMORY")
    command = [job["parameters"].get(part.removeprefix("Ref::"), part) for part in container["command"]]
    return command, memory * 2**20, "README.md"  # JSON has no comments


def google():
    job = yaml.safe_load((DOCKER / "google-batch.yaml").read_text())
    task = job["taskGroups"][0]["taskSpec"]
    container = task["runnables"][0]["container"]
    options = container["options"].split()
    assert "--read-only" in options and options[options.index("--user") + 1] == USER
    batch = needed("google.cloud.batch_v1", "test-docker")
    from google.protobuf import json_format

    json_format.ParseDict(job, batch.Job.pb(batch.Job()))  # raises on a name or a type that Batch does not know
    return container["commands"], float(task["computeResource"]["memoryMib"]) * 2**20, "google-batch.yaml"


@pytest.mark.parametrize("job", [kubernetes, amazon, google])
def test_a_job_is_careful_valid_and_asks_for_the_memory_that_we_tell(job):
    command, memory, told = job()
    assert parsed(command).device == "cuda" and asks_rightly(told, memory)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """``make(name, body)`` writes a program that writes down how it was called, which the next ones find first."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    (tmp_path / "my points.npy").touch()

    def make(name: str, body: str = "") -> None:
        file = programs / name
        file.write_text(f'#!/usr/bin/env bash\nprintf "%s\\n" "$@" > {tmp_path}/{name}.called\n{body}\n')
        file.chmod(0o755)

    make.called = lambda name: (tmp_path / f"{name}.called").read_text().splitlines()  # type: ignore[attr-defined]
    return make


def test_run_sh_starts_a_careful_container(stand_in, tmp_path):
    stand_in("docker")
    script = [DOCKER / "run.sh", "my points.npy", "2", "3", "0.25", "run.npz"]
    subprocess.run(script, cwd=tmp_path, check=True, env={**os.environ, "GPUS": ""})
    called = stand_in.called("docker")
    at = called.index("ies-gpu")
    options, args = called[:at], parsed(called[at + 1 :])
    assert options[0] == "run" and {"--read-only", "--init", "no-new-privileges", "ALL"} <= set(options)
    assert "--gpus" not in options and args.device == "cpu"
    assert (args.points, args.output, args.subset_size) == ("/in/my points.npy", "/data/run.npz", 3)
    assert f"{tmp_path}:/in:ro" in options and f"{tmp_path}:/data" in options
    assert options[options.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"


def test_slurm_puts_a_stopped_job_back_into_the_queue_and_asks_for_what_it_needs(stand_in, tmp_path):
    # like ies-gpu: SIGTERM ends the current block, which takes a moment, and then status 143
    stand_in("apptainer", f'trap "sleep 0.3; exit 143" TERM; touch {tmp_path}/ready; while true; do sleep 0.05; done')
    stand_in("scontrol")
    env = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4"}
    job = subprocess.Popen(["bash", DOCKER / "slurm.sbatch", "my points.npy", "run.npz"], cwd=tmp_path, env=env)
    while not (tmp_path / "ready").exists():
        assert job.poll() is None
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    assert job.wait(600) == 143 and stand_in.called("scontrol") == ["requeue", "7"]
    called = stand_in.called("apptainer")
    args = parsed(called[called.index("ies-gpu.sif") + 1 :])
    assert args.device == "cuda" and args.n_threads == 4
    binds = [called[at + 1] for at, part in enumerate(called) if part in ("--bind", "--home")]
    assert {bind.removesuffix(":ro").rsplit(":", 1)[1] for bind in binds} == {"/cache", "/in", "/data", "/checkpoint"}
    text = (DOCKER / "slurm.sbatch").read_text()
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", text, re.MULTILINE))
    assert asked["gres"] == "gpu:1" and asked["signal"].startswith("B:TERM@") and "requeue" in asked
    assert asks_rightly("slurm.sbatch", float(asked["mem"].removesuffix("G")) * 2**30)
    assert text.index("#SBATCH") < text.index("\nset -e")  # SLURM reads them up to the first command

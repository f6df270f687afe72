#!/usr/bin/env bash
# One fit in a plain container, which may be killed at any time: start it again and it goes on where it was.
#
#   docker/run.sh points.npy 2 2 0.25 run.npz       # intrinsic dimension, subset size, bandwidth
#
# IMAGE=ies-gpu:cpu GPUS= docker/run.sh ... runs without a GPU. MEMORY is the limit of the host's memory; what a job
# needs is told by: ies-gpu fit points.npy -d 2 -s 2 --bandwidth 0.25 --dry-run
set -euo pipefail
if (($# != 5)); then
    sed -n '2,7p' "$0" >&2
    exit 2
fi
points=$(realpath "$1") result=$(realpath "$5")
checkpoint=/checkpoint/$(basename "$result" .npz)-$(cksum <<<"$result" | cut -d" " -f1)
image=${IMAGE:-ies-gpu} gpus=${GPUS-all} memory=${MEMORY:-8g}

options=(
    --rm --init                                  # process 1 passes SIGTERM on from the first moment
    --read-only --cap-drop ALL --security-opt no-new-privileges
    --user "$(id -u):$(id -g)"                   # the result belongs to whoever started this
    --memory "$memory" --memory-swap "$memory"   # no swap: too little memory fails at once
    --volume "$(dirname "$points"):/in:ro"
    --volume "$(dirname "$result"):/data"
    --volume ies-gpu-cache:/cache                # compiled kernels
    --volume ies-gpu-checkpoint:/checkpoint      # finished stages, a folder for each result
)
[[ -n $gpus ]] && options+=(--gpus "$gpus")
device=$([[ -n $gpus ]] && echo cuda || echo cpu) # "cuda" fails without a GPU, where "auto" would fall back

exec docker run "${options[@]}" "$image" \
    fit "/in/$(basename "$points")" -d "$2" -s "$3" --bandwidth "$4" -o "/data/$(basename "$result")" \
    --device "$device" --checkpoint "$checkpoint" --resume --log-format json

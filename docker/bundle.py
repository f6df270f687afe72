"""Write the config.json of an OCI bundle, so that verify.sh runs an image as a container engine would.

    python3 docker/bundle.py [--user UID:GID] [--mount FOLDER:PATH ...] IMAGE.json ROOT BUNDLE -- [ARGUMENT ...]

IMAGE.json is what ``buildah inspect --type image`` prints; entry point, environment, user and folder come from it. The
root is read-only, there is no capability, no new privilege and no network.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

NAMESPACES = ("pid", "network", "ipc", "uts", "mount")
SYSTEM = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
    {
        "destination": "/dev/shm",
        "type": "tmpfs",
        "source": "shm",
        "options": ["nosuid", "noexec", "nodev", "mode=1777"],
    },
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
]


def bundle(
    image: dict[str, Any], root: str, user: str | None, mounts: list[str], arguments: list[str]
) -> dict[str, Any]:
    """The runtime's configuration for one run of the image."""
    config = image["OCIv1"]["config"]
    uid, gid = (int(part) for part in (user or config["User"]).split(":"))
    # as strict as any platform: what lies in a volume cannot be executed
    volumes = [
        {"destination": path, "type": "bind", "source": folder, "options": ["rbind", "rw", "nosuid", "nodev", "noexec"]}
        for folder, path in (mount.split(":") for mount in mounts)
    ]
    return {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": uid, "gid": gid},
            "args": [*config["Entrypoint"], *(arguments or config["Cmd"])],
            "env": config["Env"],
            "cwd": config["WorkingDir"],
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "root": {"path": root, "readonly": True},
        "hostname": "ies-gpu",
        "mounts": SYSTEM + volumes,
        "linux": {"namespaces": [{"type": name} for name in NAMESPACES]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the config.json of an OCI bundle.")
    parser.add_argument("image", type=Path)
    parser.add_argument("root")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--user")
    parser.add_argument("--mount", action="append", default=[])
    parser.add_argument("--entrypoint", help="instead of the image's own")
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    image = json.loads(args.image.read_text())
    if args.entrypoint:
        image["OCIv1"]["config"]["Entrypoint"] = [args.entrypoint]
    args.bundle.mkdir(parents=True, exist_ok=True)
    found = bundle(image, args.root, args.user, args.mount, args.arguments)
    (args.bundle / "config.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

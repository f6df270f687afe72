"""The shape of the package: which room may import from which, and what an import costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import ies_gpu

ROOT = Path(ies_gpu.__file__).parent
TESTS = Path(__file__).parents[1]
# a room (a folder, or a module at the top) may import only from those before it
ROOMS = [
    "errors", "backend", "validation", "files", "embedding", "choice", "run", "parameters", "results", "cluster",
    "select", "analysis", "interop", "resources", "datasets", "plot", "report", "paper", "cli", "__main__",
]  # fmt: skip
# what a result draws of itself is loaded when it is drawn
DRAWN = {("parameters", "plot"), ("analysis", "plot"), ("results", "report"), ("analysis", "report")}


def imports(path: Path):
    """The modules of the package that a file imports from, as parts, with the names and whether it is at the top."""
    tree = ast.parse(path.read_text())
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.relative_to(ROOT).parts[: -node.level]
            module = folder + tuple(node.module.split(".") if node.module else ())
            for alias in node.names:
                yield (module or (alias.name,)), alias.name, id(node) in top


def room_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def files() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_rooms_import_only_from_those_before_them():
    for path in files():
        room = room_of(path)
        assert room in ROOMS, f"{room} has no place in the order"
        for module, name, at_top in imports(path):
            other = module[0]
            if other in (room, "__version__") or (not at_top and (room, other) in DRAWN):
                continue
            assert other in ROOMS[: ROOMS.index(room)], f"{path.relative_to(ROOT)} imports {name} of {other}"


def test_private_names_stay_in_their_room():
    for path in files():
        for module, name, _ in imports(path):
            private = name.startswith("_") and not name.startswith("__")
            assert not private or module[0] == room_of(path), f"{path.relative_to(ROOT)} imports {name}"


def test_contributing_shows_the_rooms_in_this_order():
    text = (ROOT.parent / "CONTRIBUTING.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("| `")]
    shown = [name for line in table for name in re.findall(r"`(\w+)(?:/|\.py)`", line.split("|")[1])]
    assert shown == [room for room in ROOMS if room != "__main__"]


def test_every_room_has_its_tests_and_every_folder_of_tests_its_room():
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert folders == {*ROOMS, "facts", "package", "gpu"} - {"__main__"}


def test_only_the_backend_imports_cupy():
    for path in ROOT.rglob("*.py"):
        if "backend" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] in ("cupy", "cupyx") for name in names), path


def test_import_loads_only_the_standard_library():
    code = "import sys, ies_gpu; print(' '.join(sorted({m.partition('.')[0] for m in sys.modules})))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ies_gpu" in out
    assert not {"numpy", "scipy", "numba", "cupy", "matplotlib", "tqdm"} & set(out)


def test_every_public_name_exists():
    for name in ies_gpu.__all__:
        assert getattr(ies_gpu, name) is not None

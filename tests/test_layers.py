"""The shape of the package: who may import whom, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ies_gpu

ROOT = Path(ies_gpu.__file__).parent
# each module may import only from those before it
ORDER = [
    "memory", "remote", "backend", "validation", "files", "encoding",
    "ordering", "graph", "tiles", "laplacian", "multilevel", "eigsh", "eigen", "diffusion", "extension",
    "rmetric", "criterion", "path", "search", "stages", "audit", "entry", "pipeline",
    "style", "parameters", "checkpoints", "export", "selection",
    "baselines", "evaluation", "stability", "umap_start", "datasets", "selftest",
    "storage", "model", "estimators", "anndata", "estimate", "plot", "diagnosis",
    "console", "demo", "reproduce", "cli", "__main__",
]  # fmt: skip


def imported(path: Path, package: str) -> set[str]:
    """Modules of the package named by the import statements of a file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == len(path.relative_to(ROOT).parts):
            modules = [node.module] if node.module else [alias.name for alias in node.names]
            names |= {module.partition(".")[0] for module in modules}
    return names - {package, "__version__"}


def test_modules_import_only_what_stands_above_them():
    for path in ROOT.glob("*.py"):
        if path.stem == "__init__":
            continue
        assert path.stem in ORDER, f"{path.stem} has no place in the order"
        above = set(ORDER[: ORDER.index(path.stem)])
        assert imported(path, path.stem) <= above, path.stem
    for package in (folder.parent.name for folder in ROOT.glob("*/__init__.py")):
        if package == "backend":
            continue
        for path in (ROOT / package).glob("*.py"):
            assert imported(path, package) <= set(ORDER[: ORDER.index(package)]), path


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

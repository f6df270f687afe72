"""The shape of the package: which room may import from which, and what an import costs."""

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

import ies_gpu
import ies_gpu.findings

ROOT = Path(ies_gpu.__file__).parent
TESTS = Path(__file__).parents[1]
# a room (a folder, or a module at the top) may import only from those before it
ROOMS = [
    "findings", "constraints", "options", "backend", "validation", "files", "embedding",
    "choice", "run", "parameters", "results", "cluster", "select", "analysis", "interop", "resources", "datasets",
    "plot", "report", "cli", "__main__",
]  # fmt: skip
LEVELS = 14  # modules in the longest chain of imports; only ever lowered
MODULES = 71  # that are imported by ``ies-gpu fit x.npy``; the same
CROSSED = 35  # whose functions a run with given numbers calls on the CPU; the same
# what a result draws of itself is loaded when it is drawn
DRAWN = {("results", "report")}


@cache
def imports(path: Path) -> list[tuple[tuple[str, ...], str, bool]]:
    """The modules of the package that a file imports from, as parts, with the names and whether it is at the top."""
    tree, imported = ast.parse(path.read_text()), []
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            inside = path.relative_to(ROOT.parent).parts[: -node.level] if node.level else ()
            module = inside + tuple(node.module.split(".") if node.module else ())
            found = [(module[1:] or (alias.name,), alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
            module, found = ("ies_gpu",), [(tuple(m[1:]), m[-1]) for m in modules if m[0] == "ies_gpu"]
        else:
            continue
        if module[:1] == ("ies_gpu",):
            imported += [(parts, name, id(node) in top) for parts, name in found]
    return imported


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_rooms_import_only_from_those_before_them_and_no_private_names():
    drawn = set()
    for path in FILES:
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert room in ROOMS, f"{room} has no place in the order"
        for module, name, at_top in imports(path):
            assert module, f"{path.relative_to(ROOT)} imports the whole package"
            other, private = module[0], name.startswith("_") and not name.startswith("__")
            assert not private or other == room, f"{path.relative_to(ROOT)} imports {name}"
            if not at_top and (room, other) in DRAWN:
                drawn.add((room, other))
            elif other not in (room, "__version__"):
                assert other in ROOMS[: ROOMS.index(room)], f"{path.relative_to(ROOT)} imports {name} of {other}"
    assert drawn == DRAWN  # no exception outlives its reason


def test_no_chain_of_imports_is_longer_than_it_was():
    known = {path.relative_to(ROOT).with_suffix("").parts: path for path in FILES}
    known = {parts[:-1] if parts[-1] == "__init__" else parts: path for parts, path in known.items()}

    @cache
    def chain(parts: tuple[str, ...]) -> tuple[str, ...]:
        """The longest chain of modules that end with this one, each imported by the next while it is loaded."""
        named = [(module, module + (name,)) for module, name, top in imports(known[parts]) if top]
        found = {inner if inner in known else module for module, inner in named}
        return (*max((chain(other) for other in found & known.keys() - {parts}), key=len, default=()), ".".join(parts))

    longest = max(map(chain, known), key=len)
    assert len(longest) <= LEVELS, "\n".join(longest)


def test_the_table_of_rooms_is_in_this_order_and_every_path_of_the_walk_exists():
    text = (ROOT.parent / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"`(\w+)(?:/|\.py)`", "".join(re.findall(r"^\| (`\w+(?:/|\.py)`) \|", text, re.MULTILINE)))
    assert shown == [room for room in ROOMS if room != "__main__"]
    text = text[text.index("## One call") : text.index("## Habits")]
    paths = {name for name in re.findall(r"`([\w./]+)`", text) if re.search(r"/$|/\w+\.\w+$|^\w+\.py$", name)}
    assert len(paths) > 40
    places = [ROOT, ROOT.parent, ROOT / "embedding" / "eigensolvers", ROOT / "backend" / "kernels"]
    assert not [name for name in sorted(paths) if not any((place / name).exists() for place in places)]


def test_every_room_has_its_tests_and_every_folder_of_tests_its_room():
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert folders == {*ROOMS, "facts", "package", "gpu", "paper"} - {"__main__"}


def test_only_the_backend_imports_cupy():
    imported = re.compile(r"""^\s*(?:import|from) +cupyx?\b|(?:import_module|__import__)\(["']cupyx?\b""", re.MULTILINE)
    for path in ROOT.rglob("*.py"):
        assert path.relative_to(ROOT).parts[0] == "backend" or not imported.search(path.read_text()), path


def test_a_fit_with_everything_automatic_imports_no_more_modules_than_it_did(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).uniform(size=(150, 2)) * [4, 1])
    code = "import sys, ies_gpu.cli as c; c.main(['fit', 'x.npy', '--device', 'cpu', '--json']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    ours = [name for name in done.stdout.splitlines()[-1].split() if name.partition(".")[0] == "ies_gpu"]
    assert 50 < len(ours) <= MODULES, ours


def test_a_run_with_given_numbers_calls_functions_of_no_more_modules_than_it_did():
    """Once all is loaded and compiled."""
    X = ies_gpu.datasets.load("D1", n_samples=1500).X
    crossed: set[str] = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>" and str(ROOT) in frame.f_code.co_filename:
            crossed.add(frame.f_code.co_filename)

    for watch in (None, note):
        sys.setprofile(watch)
        try:
            ies_gpu.select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.6)
        finally:
            sys.setprofile(None)
    assert 20 < len(crossed) <= CROSSED, sorted(crossed)


def test_there_are_at_most_fifty_public_names_and_every_class_returned_or_raised_is_one():
    assert len(ies_gpu.__all__) <= 50
    public = [getattr(ies_gpu, name) for name in ies_gpu.__all__]  # which are all there
    returned = {
        function.__globals__.get(word)
        for function in map(inspect.unwrap, filter(inspect.isfunction, public))
        for word in re.findall(r"\w+", str(function.__annotations__.get("return")))
    }
    classes = filter(inspect.isclass, vars(ies_gpu.findings).values())
    raised = {kind for kind in classes if issubclass(kind, Exception)}
    ours = {kind for kind in returned | raised if inspect.isclass(kind) and kind.__module__.startswith("ies_gpu")}
    assert {kind.__name__ for kind in ours - set(public)} == {"Backend"}  # an adapter: read its device, nothing more

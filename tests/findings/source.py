"""The findings that the package can make, as its source has them."""

import ast
from functools import cache
from pathlib import Path

import ies_gpu

ROOT = Path(ies_gpu.__file__).parent
MAKERS = ("refusal", "warning", "light", "grave", "note", "say", "Finding")


@cache
def made() -> list[tuple[str, str]]:
    """Return the function that makes each finding, and its code with ``*`` for what varies."""
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                code = code_in(node.args[0]) if name in MAKERS else ""
                if "." in code and " " not in code:
                    found.append((name, code))
    return found


def code_in(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def codes(*makers: str) -> set[str]:
    return {code for name, code in made() if name in makers}

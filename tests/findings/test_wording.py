"""The words of findings, for Python and for the command line: the one place where sentences are tested."""

import ast
import re
from dataclasses import fields

from ies_gpu import cli
from ies_gpu.cli.parser import ADVICE, FLAGS, in_flags, say_in_flags
from ies_gpu.findings import option, render, warning
from ies_gpu.options import Options
from tests.findings.source import ROOT, codes

OPTIONS = "|".join({field.name for field in fields(Options)} - {"entry"})
UNMARKED = re.compile(rf"(?<![\w`.-])(?:{OPTIONS})=$|(?<![\w`.-])(?:{OPTIONS})=['\d]")


def test_options_are_written_for_python_and_as_flags():
    for text, python, here in (
        (f"try {option('n_neighbors', 15)}", "try n_neighbors=15", "try --neighbors 15"),
        (f"or try {option('bandwidth', 'auto')}", "or try bandwidth='auto'", "or try --bandwidth auto"),
        (f"use {option('bandwidth', 0.61234567)}", "use bandwidth=0.612346", "use --bandwidth 0.612346"),
        (f"use {option('device', 'cpu')}", "use device='cpu'", "use --device cpu"),
        (f"raise {option('n_components')}", "raise n_components", "raise -m"),
        (f"lower {option('intrinsic_dim')}", "lower intrinsic_dim", "lower -d"),
        (f"set {option('self_loops', False)}", "set self_loops=False", "set --no-self-loops"),
        (f"pass {option('resume', True)}", "pass resume=True", "pass --resume"),
        (f"not with {option('client')}", "not with client", "not with a cluster"),
        (option("memory_limit", 1 << 30), "memory_limit=1073741824", "--memory-limit 1G"),
        (option("memory_limit", 5_650_000_000), "memory_limit=5650000000", "--memory-limit 5389M"),
        (f"{option('X_new')} has a row", "X_new has a row", "X_new has a row"),
        (f"{option('the file')} is empty", "the file is empty", "the file is empty"),
    ):
        assert render(text) == python
        assert render(text, in_flags) == here


def test_a_command_is_not_told_of_options_that_it_does_not_have():
    found = warning("device.cpu", "no driver", f"use {option('device', 'cpu')}")
    assert say_in_flags(found, {"-o"}) == "no driver; use IES_GPU_DEVICE=cpu"
    assert say_in_flags(found, {"--device"}) == "no driver; use --device cpu"
    few = warning("a.b", f"{option('n_samples')} are few")
    assert say_in_flags(few) == say_in_flags(few, {"-o"}) == "n_samples are few"
    assert say_in_flags(few, {"-n"}) == "-n are few"


def test_every_flag_is_one_of_fit_and_advice_for_the_command_line_belongs_to_findings_that_there_are():
    (commands,) = cli.build_parser()._subparsers._group_actions
    known = commands.choices["fit"]._option_string_actions
    rest = {"--entry", "--keep-bases", "--self-loops", "--untangle", "select_each_part in Python"}
    assert {FLAGS[name] for name in FLAGS} - set(known) == rest
    kinds = codes("warning", "light", "refusal", "say") | {"not_finite", "metric.choice", "--points.columns"}
    assert set(ADVICE) <= kinds


def test_every_option_in_a_sentence_is_marked():
    """All strings but docstrings, the text of a repr and what is shown as code."""
    rest = {"cli/data.py", "datasets/synthetic.py", "interop/umap.py", "results/model.py", "embedding/laplacian.py"}
    for file in sorted(set(ROOT.rglob("*.py")) - {ROOT / name for name in rest}):
        tree = ast.parse(file.read_text())
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)]
        docs = {id(node.body[0].value) for node in nodes if isinstance(node.body[0], ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in docs else None
            if isinstance(text, str) and ">>> " not in text:  # which is a part of a docstring
                assert not UNMARKED.search(text), f"{file.relative_to(ROOT)}:{node.lineno}"

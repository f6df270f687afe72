"""Python functions in place of those of CuPy's Cython modules, also for callers that reach them through C.

Cython keeps a C pointer to every ``cpdef`` function in the module's dictionary ``__pyx_capi__``. A module that cimports
the function fetches the pointer from there when it is first imported, so whoever puts another one there before that is
called instead. The name of the capsule around a pointer is the C signature, of which the trampolines are written: each
calls a Python function and hands on its result or its exception.
"""

import ctypes
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from tests.cuda_emulator import compiler

# how PyObject_CallFunction is told of an argument; enumerations are ints
FORMATS = {
    "int": "i", "unsigned int": "I", "intptr_t": "n", "size_t": "n", "float": "f", "double": "d", "uintmax_t": "K",
    "PY_LONG_LONG": "L", "int64_t": "L", "long long": "L", "char": "b",
}  # fmt: skip
# of a result, how C gets it from Python, and what says that there is an exception: CuPy's .pxd files name it
RESULTS = {
    "int": ("(int)PyLong_AsLong(r)", "-1"), "unsigned int": ("(unsigned)PyLong_AsUnsignedLong(r)", "-1"),
    "intptr_t": ("(intptr_t)PyLong_AsSsize_t(r)", "0"), "size_t": ("PyLong_AsSize_t(r)", "-1"),
    "PY_LONG_LONG": ("PyLong_AsLongLong(r)", "-1"), "float": ("(float)PyFloat_AsDouble(r)", "-1"),
    "uintmax_t": ("PyLong_AsUnsignedLongLong(r)", "0"),
}  # fmt: skip
# what is needed of Python's headers, which are not installed everywhere
HEAD = """
#include <stddef.h>
#include <stdint.h>
#define PY_LONG_LONG long long
extern "C" {
struct PyObject;
PyObject *PyObject_CallFunction(PyObject *, const char *, ...);
void Py_DecRef(PyObject *);
long PyLong_AsLong(PyObject *);
unsigned long PyLong_AsUnsignedLong(PyObject *);
ptrdiff_t PyLong_AsSsize_t(PyObject *);
size_t PyLong_AsSize_t(PyObject *);
long long PyLong_AsLongLong(PyObject *);
unsigned long long PyLong_AsUnsignedLongLong(PyObject *);
double PyFloat_AsDouble(PyObject *);
"""
api = ctypes.pythonapi
api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
kept: list[Any] = []  # for as long as the process lives


class InternalsChangedError(RuntimeError):
    """This CuPy is not built like the one that these tests know."""


def split(signature: str) -> tuple[str, list[str]]:
    """The result and the arguments of a C signature, without those that Cython hides."""
    found = re.fullmatch(r"(.*?) ?\((.*)\)", signature)
    if found is None:
        raise InternalsChangedError(f"a capsule is called {signature!r}")
    arguments = [part.strip() for part in found[2].split(",")]
    result = "PyObject *" if found[1].endswith("*") else found[1]
    return result, [part for part in arguments if part != "void" and not re.search("__pyx_(skip|opt)", part)]


def trampoline(place: int, signature: str) -> str:
    """C++ of a function with this signature that calls ``target[place]``."""
    result, arguments = split(signature)
    types = ["PyObject *" if a.endswith("*") else a if a in FORMATS else "int" for a in arguments]
    formats = "".join("O" if kind == "PyObject *" else FORMATS[kind] for kind in types)
    given = [f"{kind} a{i}" for i, kind in enumerate(types)]
    given += ["int skip"] * ("__pyx_skip" in signature) + ["void *optional"] * ("__pyx_opt" in signature)
    values = "".join(f", a{i}" for i in range(len(types)))
    lines = [
        f"{result} t{place}({', '.join(given) or 'void'}) {{",
        f'    PyObject *r = PyObject_CallFunction(target[{place}], "({formats})"{values});',
    ]
    if result == "PyObject *":
        return "\n".join([*lines, "    return r;", "}\n"])
    back, failed = RESULTS[result]
    lines += [f"    if (!r) return {failed};", f"    {result} v = {back};", "    Py_DecRef(r);", "    return v;", "}\n"]
    return "\n".join(lines)


def replace(module: ModuleType, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Put Python ``functions`` in place of those of a module that have their names."""
    table = getattr(module, "__pyx_capi__", {})
    for name, function in functions.items():
        if not hasattr(module, name) and name not in table:
            raise InternalsChangedError(f"{module.__name__} has no {name}: the tests know CuPy 14.2")
        if hasattr(module, name):
            setattr(module, name, function)
    signatures = {name: api.PyCapsule_GetName(table[name]).decode() for name in functions if name in table}
    signatures = {name: text for name, text in signatures.items() if split(text)[0] in ("PyObject *", *RESULTS)}
    if not signatures:
        return
    code = f"{HEAD}PyObject *target[{len(signatures)}];\n"
    code += "".join(trampoline(place, text) for place, text in enumerate(signatures.values())) + "}\n"
    path = compiler.cache_folder() / f"{compiler.named_by(code)}.so"
    library = ctypes.PyDLL(str(compiler.made_once(path, lambda: code, "-shared")))
    targets = (ctypes.py_object * len(signatures)).in_dll(library, "target")
    for place, (name, signature) in enumerate(signatures.items()):
        text = ctypes.create_string_buffer(signature.encode())
        kept.append((library, text, functions[name]))
        targets[place] = functions[name]
        api.Py_IncRef(ctypes.py_object(functions[name]))
        pointer = ctypes.cast(library[f"t{place}"], ctypes.c_void_p)
        table[name] = api.PyCapsule_New(pointer, ctypes.cast(text, ctypes.c_char_p), None)

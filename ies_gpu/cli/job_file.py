"""Options from a file, the environment and flags (later ones win), and where each value came from."""

from __future__ import annotations

import argparse
import difflib
import os
import tomllib
from functools import partial
from typing import Any, NamedTuple

from ..files.remote import shown
from .options import Parser

PREFIX = "IES_GPU_"
EPILOG = """
You can also set any option in JOB.TOML (bandwidth = 0.25) or in an environment
variable (IES_GPU_BANDWIDTH=0.25). Flags override variables, and variables
override the file.

Exit status: 0 done, 1 failed, 2 usage error, 130 Ctrl-C, 143 SIGTERM.
"""
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Option(NamedTuple):
    """An option of a command as it was declared."""

    action: argparse.Action
    default: Any
    required: bool

    @property
    def name(self) -> str:
        """Its key in a file: the long flag without dashes in front, or the name of a positional argument."""
        flags = [flag for flag in self.action.option_strings if flag.startswith("--")]
        return flags[0][2:] if flags else self.action.dest

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")

    @property
    def is_switch(self) -> bool:
        return isinstance(self.action, argparse._StoreTrueAction)


def layered(parser: Parser) -> None:
    """Let a file (``--config``) and the environment set all options of a command."""
    options = {}
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        options[action.dest] = Option(action, action.default, action.required)
        # left out where not given, and so told apart from a flag that repeats the default
        action.default, action.required = argparse.SUPPRESS, False
        if not action.option_strings:
            action.nargs = "?"
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.resolve = partial(resolved, parser, options)


def resolved(parser: Parser, options: dict[str, Option], flags: argparse.Namespace) -> argparse.Namespace:
    """All options from the four places; ``configuration`` says where each came from."""
    values = {dest: option.default for dest, option in options.items()}
    sources = dict.fromkeys(options, "default")
    path = getattr(flags, "config", None) or os.environ.get(options["config"].variable) or None
    layers = [("environment", from_environment(parser, options))]
    layers.append(("flag", {dest: value for dest, value in vars(flags).items() if dest in options}))
    if path is not None:
        layers.insert(0, (f"file {path}", from_file(parser, options, path)))
    for source, found in layers:
        values |= found
        sources |= dict.fromkeys(found, source)
    missing = [option for dest, option in options.items() if option.required and values[dest] is None]
    if missing:
        named = ["/".join(o.action.option_strings) or str(o.action.metavar or o.action.dest) for o in missing]
        parser.error(f"the following arguments are required: {', '.join(named)}")
    configuration = {
        option.name: {"value": shown(values[dest]), "from": sources[dest]} for dest, option in options.items()
    }
    if sources.get("device") == "environment":
        values["device"] = "auto"  # for which the variable decides, and is named as the reason
    return argparse.Namespace(**vars(flags) | values, configuration=configuration)


def from_file(parser: Parser, options: dict[str, Option], path: str) -> dict[str, Any]:
    """The values of a TOML file, whose keys are the long flags."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        parser.error(f"--config {path}: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        parser.error(f"{path} is not a TOML file: {error}")
    known = {option.name: dest for dest, option in options.items() if dest != "config"}
    found = {}
    for key, value in content.items():
        name = key.replace("_", "-")
        if isinstance(value, dict):
            parser.error(f"{path}: [{key}] is a table; put the options at the top level instead")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"valid options are {', '.join(known)}"
            parser.error(f"{path}: {key!r} is not an option; {hint}")
        if known[name] in found:
            parser.error(f"{path}: {name!r} is given twice ('-' and '_' mean the same)")
        found[known[name]] = converted(parser, options[known[name]], value, f"{path}: {key}")
    return found


def from_environment(parser: Parser, options: dict[str, Option]) -> dict[str, Any]:
    """The values of ``IES_GPU_<OPTION>``; an empty one counts as not set."""
    variables = {option.variable: dest for dest, option in options.items()}
    found = {}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX) or not text:
            continue
        if variable in variables:
            option = options[variables[variable]]
            found[variables[variable]] = converted(parser, option, text, variable)
        elif near := difflib.get_close_matches(variable, variables, n=1, cutoff=0.9):
            parser.error(f"{variable} is not an option; did you mean {near[0]}?")
    return found


def converted(parser: Parser, option: Option, value: Any, where: str) -> Any:
    """A value as the flag would give it, with the same checks."""
    if option.is_switch:
        if isinstance(value, str) and value.lower() in YES + NO:
            value = value.lower() in YES
        if not isinstance(value, bool):
            parser.error(f"{where} must be true or false, got {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        parser.error(f"{where} must be a number or text, got {value!r}")
    try:
        result = option.action.type(str(value)) if callable(option.action.type) else str(value)
    except argparse.ArgumentTypeError as error:
        parser.error(f"{where}: {error}")
    if option.action.choices is not None and result not in option.action.choices:
        parser.error(f"{where} must be one of {', '.join(map(str, option.action.choices))}, got {value!r}")
    return result

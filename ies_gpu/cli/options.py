"""Flags, variables and job files, built from the table of options, with readable errors.

A later source wins: defaults, the file of ``--config``, variables ``IES_GPU_<OPTION>``, flags.
"""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from itertools import combinations
from typing import Any, NoReturn

from ..constraints import Constraint, Device, Integer, Seed, Switch, Words
from ..files.remote import shown
from ..options import DEFAULTS, TABLE

WRONG_USE = 2
PREFIX = "IES_GPU_"
SOURCES = """
You can also set any option in JOB.TOML (bandwidth = 0.25) or in an environment
variable (IES_GPU_BANDWIDTH=0.25). Flags override variables, and variables
override the file.

Exit status: 0 done, 1 failed, 2 usage error, 130 Ctrl-C, 143 SIGTERM.
"""
SWITCH = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)
DETAILS = (
    "n_components", "radius", "self_loops", "metric", "alpha", "zeta", "percentile", "search", "untangle", "scale",
    "diffusion_time", "disconnected", "tol", "random_state",
)  # fmt: skip


class WrongUse(SystemExit):
    """The command cannot be understood; the message is for the user."""


class Parser(argparse.ArgumentParser):
    """A parser that reports a usage error in one line, not with the whole usage.

    Attributes
    ----------
    resolve : callable, optional
        Completes what was given on the command line with values from elsewhere.
    """

    resolve: Callable[[argparse.Namespace], argparse.Namespace] | None = None

    def error(self, message: str) -> NoReturn:
        raise WrongUse(f"{message} (see '{self.prog} --help')")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        for word in (word.partition("=")[0] for word in rest if word.startswith("-") and word != "--"):
            if word in self._option_string_actions:
                self.error(f"{word} comes after '--', where options end; put it before")
            near = get_close_matches(word, self._option_string_actions, n=1, cutoff=0.65)
            self.error(f"unknown option {word}" + (f"; did you mean {near[0]}?" if near else ""))
        return (found if self.resolve is None or rest else self.resolve(found)), rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the command or the choice that a misspelt one may have meant."""
        near = get_close_matches(str(value), map(str, action.choices or ()), n=1)
        if near and value not in (action.choices or ()):
            raise argparse.ArgumentError(action, f"{value!r} is unknown; did you mean {near[0]!r}?")
        super()._check_value(action, value)

    def read(self, action: argparse.Action, value: Any, where: str) -> Any:
        """Return a value from a variable or a file as the flag would give it, with the same checks."""
        try:
            if not isinstance(action, argparse._StoreTrueAction):
                found = self._get_value(action, str(value))
                self._check_value(action, found)
                return found
            return SWITCH[str(value).lower()]
        except argparse.ArgumentError as error:
            self.error(f"{where}: {error.message}")
        except KeyError:
            self.error(f"{where} must be true or false, got {value!r}")


def add_command(commands: Any, name: str, run: Callable[..., int], text: str, example: str) -> Parser:
    """Add a command with a line of help and an example."""
    command = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run, parser=command)
    return command


def add_reading(option: Callable[..., Any]) -> None:
    """Add the options that say which part of a file to read."""
    option("--key", metavar="NAME", help="which array to read from a file that holds several, such as X_pca")
    option("--columns", metavar="A,B,...", help="columns of a table to use as coordinates, by name or number from 0")
    option("--index-col", metavar="NAME", help="column of a table that names the rows")


def chosen_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the same for ``read_table``."""
    columns = None if args.columns is None else column_names(args.columns)
    return {"key": args.key, "columns": columns, "index_col": args.index_col}


def column_names(text: str) -> tuple[str, ...]:
    """Return columns that are separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def flags_of(name: str) -> list[str]:
    """Return the flags of an option, the short one first; of a switch that is on, the one that turns it off."""
    flag, words = TABLE[name].flag, name.replace("_", "-")
    if DEFAULTS[name] is True:
        return [f"--no-{words}"]
    return [flag] if flag.startswith("--") else [*filter(None, (flag, f"--{words}"))]


def add_options(group: Any, *names: str) -> None:
    """Add options of the table to a parser, or a group of it, with their defaults and checks."""
    for name in names:
        about, default = TABLE[name], DEFAULTS[name]
        if isinstance(about.accepts, Switch):
            dest = f"no_{name}" if default else name
            group.add_argument(*flags_of(name), dest=dest, action="store_true", help=about.help)
            continue
        words = about.accepts.words if isinstance(about.accepts, Words) else ()
        more = {"choices": words, "metavar": about.metavar or "HOW"} if words else {"type": read_by(about.accepts)}
        text = about.help + (f": {one_of(words)}" if words else "") + ("" if default is None else f" ({default})")
        group.add_argument(*flags_of(name), dest=name, default=default, help=text, **{"metavar": about.metavar} | more)


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the table that flags, variables or a job file have set."""
    given = vars(args)
    found = {name: given[name] for name in TABLE if name in given}
    return found | {name: not given[f"no_{name}"] for name in TABLE if f"no_{name}" in given}


def read_by(accepts: Constraint) -> Callable[[str], Any]:
    """Return the type of a flag: text is read by a constraint, and checked by it."""

    def value(text: str) -> Any:
        try:
            found = accepts.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be {accepts.text}, got {text!r}") from None
        try:
            return accepts.check("", found)
        except (ValueError, TypeError) as error:
            raise argparse.ArgumentTypeError(str(error).strip()) from None

    return value


count, seed, device = read_by(Integer(1)), read_by(Seed(0)), read_by(Device())


def add_talk(command: argparse.ArgumentParser, *, as_json: str = "", progress: bool = True) -> None:
    """Add what every command shares."""
    option = command.add_argument_group("output").add_argument
    if as_json:
        option("--json", action="store_true", help=as_json)
    if progress:
        option("-q", "--quiet", action="store_true", help="show only warnings and errors, no progress or summary")
        option("--log-format", choices=("text", "json"), default="text", help="format of the progress on stderr (text)")
    option("--debug", action="store_true", help="show the traceback of an error")


def check_ending(parser: argparse.ArgumentParser, option: str, path: str | None, *endings: str) -> None:
    """Check that the name of an output has one of some endings."""
    if path and os.path.splitext(shown(path))[1].lower() not in endings:
        parser.error(f"{option} must name a{'n' * (endings == ('.npz',))} {one_of(endings)} file, got {shown(path)}")


def one_of(words: tuple[str, ...]) -> str:
    """Return words as a choice: a, b or c."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def check_different(parser: argparse.ArgumentParser, paths: dict[str, str | None]) -> None:
    """Check that no file is used twice."""
    named = [(name, path) for name, path in paths.items() if path]
    for (name, path), (other, second) in combinations(named, 2):
        if os.path.realpath(path) == os.path.realpath(second):
            parser.error(f"{name} and {other} must be different files, got {shown(path)} twice")


def read_also_from_job_files(parser: Parser) -> None:
    """Let a file (``--config``) and variables set every option of a command, by the name of its long flag."""
    actions = {action.dest: action for action in parser._actions if not isinstance(action, argparse._HelpAction)}
    defaults = {dest: action.default for dest, action in actions.items()}
    names = {dest: (action.option_strings or [dest])[-1].lstrip("-") for dest, action in actions.items()}
    required = [action for action in actions.values() if action.required]
    for action in actions.values():  # left out where not given, and so told apart from a flag that repeats the default
        action.default, action.required = argparse.SUPPRESS, False
        action.nargs = action.nargs if action.option_strings else "?"

    def resolve(flags: argparse.Namespace) -> argparse.Namespace:
        given = {dest: value for dest, value in vars(flags).items() if dest in actions}
        path = given.get("config") or os.environ.get(f"{PREFIX}CONFIG") or None
        by_name = {name: actions[dest] for dest, name in names.items()}
        found, sources = dict(defaults), dict.fromkeys(actions, "default")
        for source, values in (
            (f"file {path}", _from_file(parser, by_name, path) if path else {}),
            ("environment", _from_environment(parser, by_name)),
            ("flag", given),
        ):
            found |= values
            sources |= dict.fromkeys(values, source)
        if missing := [action.metavar for action in required if found[action.dest] is None]:
            parser.error(f"the following arguments are required: {', '.join(map(str, missing))}")
        about = {name: {"value": shown(found[dest]), "from": sources[dest]} for dest, name in names.items()}
        if sources["device"] == "environment":
            found["device"] = "auto"  # for which the variable decides, and is named as the reason
        return argparse.Namespace(**vars(flags) | found, configuration=about)

    parser.epilog = f"{parser.epilog or ''}\n{SOURCES}"
    parser.resolve = resolve


def _from_file(parser: Parser, actions: dict[str, argparse.Action], path: str) -> dict[str, Any]:
    """Return the values of a TOML file, whose keys are the long flags."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        parser.error(f"--config {path}: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        parser.error(f"{path} is not a TOML file: {error}")
    found: dict[str, Any] = {}
    known = [name for name in actions if name != "config"]
    for key, value in content.items():
        name = key.replace("_", "-")
        if isinstance(value, dict):
            parser.error(f"{path}: [{key}] is a table; put the options at the top level instead")
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"valid options are {', '.join(known)}"
            parser.error(f"{path}: {key!r} is not an option; {hint}")
        if actions[name].dest in found:
            parser.error(f"{path}: {name!r} is given twice ('-' and '_' mean the same)")
        found[actions[name].dest] = parser.read(actions[name], value, f"{path}: {key}")
    return found


def _from_environment(parser: Parser, actions: dict[str, argparse.Action]) -> dict[str, Any]:
    """Return the values of ``IES_GPU_<OPTION>``; an empty one counts as not set."""
    variables = {PREFIX + name.upper().replace("-", "_"): action for name, action in actions.items()}
    found = {}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX) or not text:
            continue
        if variable in variables:
            found[variables[variable].dest] = parser.read(variables[variable], text, variable)
        elif near := get_close_matches(variable, variables, n=1, cutoff=0.9):
            parser.error(f"{variable} is not an option; did you mean {near[0]}?")
    return found

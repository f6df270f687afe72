"""What the commands share: the parser, groups of options, and values with readable errors."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from difflib import get_close_matches
from itertools import combinations
from typing import Any, NoReturn

from ..constraints import Bytes, Constraint, Device, Integer, Number, Seed, Switch, Words
from ..files.remote import shown
from ..options import DEFAULTS, TABLE

WRONG_USE = 2


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
        self._suggest(rest)
        return (found if self.resolve is None or rest else self.resolve(found)), rest

    def _suggest(self, rest: list[str]) -> None:
        """Name the option that is unknown, and the one that may have been meant; other words are left to argparse."""
        for word in (word.partition("=")[0] for word in rest if word.startswith("-") and word != "--"):
            if word in self._option_string_actions:
                self.error(f"{word} comes after '--', where options end; put it before")
            near = get_close_matches(word, self._option_string_actions, n=1, cutoff=0.65)
            self.error(f"unknown option {word}" + (f"; did you mean {near[0]}?" if near else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the command or the choice that a misspelt one may have meant."""
        near = get_close_matches(str(value), map(str, action.choices or ()), n=1)
        if near and value not in (action.choices or ()):
            raise argparse.ArgumentError(action, f"{value!r} is unknown; did you mean {near[0]!r}?")
        super()._check_value(action, value)


def add_command(commands: Any, name: str, run: Callable[..., int], text: str, example: str) -> Parser:
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


DETAILS = (
    "n_components", "radius", "self_loops", "metric", "alpha", "zeta", "percentile", "search", "scale",
    "diffusion_time", "disconnected", "tol", "random_state",
)  # fmt: skip


def add_reading(option: Callable[..., Any]) -> None:
    """Options that say which part of a file to read."""
    option("--key", metavar="NAME", help="which array to read from a file that holds several, such as X_pca")
    option(
        "--columns",
        metavar="A,B,...",
        help="columns of a table to use as coordinates, by name or number from 0",
    )
    option("--index-col", metavar="NAME", help="column of a table that names the rows")


def chosen_of(args: argparse.Namespace) -> dict[str, Any]:
    """The same for ``read_table``."""
    columns = None if args.columns is None else column_names(args.columns)
    return {"key": args.key, "columns": columns, "index_col": args.index_col}


def column_names(text: str) -> tuple[str, ...]:
    """Columns that are separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def flags_of(name: str) -> list[str]:
    """Return the flags of an option, the short one first; of a switch that is on, the one that turns it off."""
    about, long = TABLE[name], f"--{name.replace('_', '-')}"
    if DEFAULTS[name] is True:
        return [f"--no-{name.replace('_', '-')}"]
    if about.flag.startswith("--"):
        return [about.flag]
    return [about.flag, long] if about.flag else [long]


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
        text = about.help + (f": {', '.join(words[:-1])} or {words[-1]}" if words else "")
        text += "" if default is None else f" ({default})"
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


def add_talk(command: argparse.ArgumentParser, *, as_json: str = "", progress: bool = True) -> None:
    """What every command shares."""
    option = command.add_argument_group("output").add_argument
    if as_json:
        option("--json", action="store_true", help=as_json)
    if progress:
        option("-q", "--quiet", action="store_true", help="show only warnings and errors, no progress or summary")
        option("--log-format", choices=("text", "json"), default="text", help="format of the progress on stderr (text)")
    option("--debug", action="store_true", help="show the traceback of an error")


def check_ending(parser: argparse.ArgumentParser, option: str, path: str | None, ending: str) -> None:
    """Check that the name of an output has the right ending."""
    if path and os.path.splitext(shown(path))[1].lower() != ending:
        parser.error(f"{option} must name {'an' if ending[1] == 'n' else 'a'} {ending} file, got {shown(path)}")


def check_table(parser: argparse.ArgumentParser, option: str, path: str | None) -> None:
    """Check that a table can be written under the name of an output."""
    from ..files.writing import WRITTEN

    if path and os.path.splitext(shown(path))[1].lower() not in WRITTEN:
        endings = f"{', '.join(WRITTEN[:-1])} or {WRITTEN[-1]}"
        parser.error(f"{option} must name a {endings} file, got {shown(path)}")


def check_different(parser: argparse.ArgumentParser, paths: dict[str, str | None]) -> None:
    """Check that no file is used twice."""
    named = [(name, path) for name, path in paths.items() if path]
    for (name, path), (other, second) in combinations(named, 2):
        if os.path.realpath(path) == os.path.realpath(second):
            parser.error(f"{name} and {other} must be different files, got {shown(path)} twice")


count = read_by(Integer(1))
seed = read_by(Seed(0))
positive = read_by(Number())
device = read_by(Device())
size = read_by(Bytes())

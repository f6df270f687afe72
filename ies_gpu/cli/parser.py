"""The parser of a command: flags from the table of options, job files, variables, and findings said in flags."""

import argparse
import os
import tomllib
from ast import literal_eval
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn

from ..constraints import Constraint, Switch, Words
from ..files.remote import shown
from ..findings import Finding, finding_of, in_python, sentence
from ..options import DEFAULTS, TABLE

WRONG_USE = 2
PREFIX = "IES_GPU_"
OWN_WAY = ("--help", "--config", "--device")  # the backend reads the last, which it names as its reason
SWITCH = {"1": True, "true": True, "0": False, "false": False}
FLAGS = {name: about.flag or f"--{name.replace('_', '-')}" for name, about in TABLE.items()}
FLAGS["select_each_part"] = "select_each_part in Python"  # which makes several files
# by code, or by its last part, where a shell needs other advice than Python
ADVICE = {
    "graph.left_out": "--coordinates writes a row for every point, empty for these",
    "metric.choice": "for other distances, make a graph with scikit-learn and call select_coordinates(graph=...)",
    "molecule.mirrored": "--features torsions keeps it",
    "choice.nearly_touch": "'ies-gpu report' shows where",
    "shape.folded": "'ies-gpu report' shows where",
    "--points.columns": "choose them as for 'ies-gpu fit', with --columns and --index-col, or --key",
    "not_finite": "remove these rows (counted from 0) from the file, or leave columns out with --columns",
}


class WrongUse(SystemExit):
    """The command cannot be understood; the message is for the user."""


class Parser(argparse.ArgumentParser):
    """A parser that reports a usage error in one line, and puts job file and variables before what it is given."""

    def error(self, message: str) -> NoReturn:
        raise WrongUse(f"{message} (see '{self.prog} --help')")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        settings = self._settings(args) if "--config" in self._option_string_actions else {}
        points = settings.pop("--points", None)
        words = [flag if value is True else f"{flag}={value}" for flag, value in settings.items() if value is not False]
        words += [] if points is None else [str(points)]
        found, rest = super().parse_known_args([*words, *args] if words else args, namespace)
        if rest and points is not None and not rest[0].startswith("-"):
            found.points = rest.pop(0)  # instead of those of the job file
        for word in (word.partition("=")[0] for word in rest if word.startswith("-") and word != "--"):
            if word not in self._option_string_actions:  # one that is comes after "--", where options end
                self.error(f"unknown option {word}{self._meant(word)}")
        return found, rest

    def _settings(self, args: Any) -> dict[str, Any]:
        """Return what the TOML file of --config, and then variables, set by flag; an empty variable is not set."""
        job, known = argparse.ArgumentParser(add_help=False, allow_abbrev=False), self._option_string_actions
        job.add_argument("--config", nargs="?")
        path = job.parse_known_args(args)[0].config or os.environ.get(f"{PREFIX}CONFIG")
        found: dict[str, Any] = {}
        try:
            content = tomllib.loads(Path(path).read_text("utf-8")) if path else {}
        except OSError as error:
            self.error(f"--config {path}: {error.strerror}")
        except ValueError as error:
            self.error(f"{path} is not a TOML file: {error}")
        for key, value in content.items():
            flag = f"--{key.replace('_', '-')}"
            if key != "points" and flag not in known:
                self.error(f"{path}: {key!r} is not an option{self._meant(flag)}")
            if isinstance(value, bool) and (key == "points" or known[flag].nargs != 0):
                self.error(f"{path}: {key} must not be true or false")
            found[flag] = ",".join(map(str, value)) if isinstance(value, list) else value
        for flag, about in known.items():
            variable = PREFIX + flag.removeprefix("--").replace("-", "_").upper()
            text = os.environ.get(variable) if flag.startswith("--") and flag not in OWN_WAY else None
            if text and about.nargs == 0 and text.lower() not in SWITCH:
                self.error(f"{variable} must be true or false, got {text!r}")
            if text:
                found[flag] = SWITCH[text.lower()] if about.nargs == 0 else text
        return found

    def _meant(self, word: str) -> str:
        near = get_close_matches(word, self._option_string_actions, n=1, cutoff=0.65)
        return f"; did you mean {near[0]}?" if near else ""


def add_command(commands: Any, name: str, run: Callable[..., int], text: str, example: str, more: str = "") -> Parser:
    """Add a command with a line of help, an example, and what else there is to say."""
    about = {"help": text, "description": f"{text[0].upper()}{text[1:]}.", "epilog": f"example:\n  {example}\n{more}"}
    raw = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(name, formatter_class=raw, allow_abbrev=False, **about)
    command.set_defaults(run=run, parser=command)
    return command


def add_reading(option: Callable[..., Any]) -> None:
    """Add the options that say which part of a file to read."""
    option("--key", metavar="NAME", help="which array to read from a file that holds several, such as run/X")
    option("--columns", metavar="A,B,...", help="columns of a table to use as coordinates, by name or number from 0")
    option("--index-col", metavar="NAME", help="column of a table that names the rows")


def chosen_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return what of a file these options choose, for ``read_table``."""
    columns = None if args.columns is None else [name.strip() for name in args.columns.split(",")]
    return {"key": args.key, "columns": columns, "index_col": args.index_col}


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
            action = "store_false" if default else "store_true"
            group.add_argument(*flags_of(name), dest=name, action=action, help=about.help)
            continue
        words = about.accepts.words if isinstance(about.accepts, Words) else ()
        more = {"choices": words, "metavar": about.metavar or "HOW"} if words else {"type": read_by(about.accepts)}
        text = about.help + (f": {one_of(words)}" if words else "") + ("" if default is None else f" ({default})")
        group.add_argument(*flags_of(name), dest=name, default=default, help=text, **{"metavar": about.metavar} | more)


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(args).items() if name in TABLE}


def read_by(accepts: Constraint) -> Callable[[str], Any]:
    """Return the type of a flag: text is read by a constraint, and checked by it."""

    def value(text: str) -> Any:
        try:
            return accepts.check("", accepts.parse(text))
        except (ValueError, TypeError) as error:
            wrong = f"must be {accepts}, got {text!r}" if finding_of(error) is None else str(error).strip()
            raise argparse.ArgumentTypeError(wrong) from None

    return value


def add_talk(command: argparse.ArgumentParser, *, as_json: str = "", progress: bool = True) -> None:
    option = command.add_argument_group("output").add_argument
    if as_json:
        option("--json", action="store_true", help=as_json)
    if progress:
        option("-q", "--quiet", action="store_true", help="show only warnings and errors, no progress or summary")
        option("--log-format", choices=("text", "json"), default="text", help="format of the progress on stderr (text)")
    option("--debug", action="store_true", help="show the traceback of an error")


def check_file(parser: argparse.ArgumentParser, option: str, path: str | None, *endings: str) -> None:
    """Check before long work that an output has one of some endings, by default those of tables, and can be written."""
    if path:
        from ..files.writing import WRITTEN, check_output

        ending, kinds = os.path.splitext(shown(path))[1].lower(), endings or WRITTEN
        if ending not in kinds:
            parser.error(f"{option} must end in {one_of(kinds)}, got {shown(path)}")
        check_output(path, ending)


def one_of(words: tuple[str, ...]) -> str:
    """Return words as a choice: a, b or c."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def check_different(parser: argparse.ArgumentParser, paths: dict[str, str | None]) -> None:
    named = [(name, path) for name, path in paths.items() if path]
    for (name, path), (other, second) in combinations(named, 2):
        if os.path.realpath(path) == os.path.realpath(second):
            parser.error(f"{name} and {other} must be different files, got {shown(path)} twice")


def say_in_flags(finding: Finding, known: Collection[str] | None = None) -> str:
    """Return the sentence of a finding with flags for options; ``known`` are the flags of the command."""
    advice = ADVICE.get(finding.code) or ADVICE.get(finding.code.rpartition(".")[2]) or finding.advice
    return sentence(replace(finding, advice=advice), partial(in_flags, known=known))


def in_flags(name: str, value: str | None, known: Collection[str] | None = None) -> str:
    """Write an option as a flag, or as the variable that every command heeds where the command has no such flag."""
    if name == "client":
        return "a cluster"
    flag = "-n" if name == "n_samples" and "-n" in (known or ()) else FLAGS.get(name)
    if flag is None:
        return in_python(name, value)
    if value in ("False", "True"):
        return flag if value == "True" else flags_of(name)[0]
    plain = value or ""
    with suppress(ValueError, SyntaxError):  # words without the quotes of Python
        plain = found if isinstance(found := literal_eval(plain), str) else plain
    if name == "memory_limit" and value:  # in powers of 1024, rounded up
        plain = f"{int(value) >> 30}G" if int(value) % (1 << 30) == 0 else f"{-(-int(value) >> 20)}M"
    if name == "device" and known is not None and "--device" not in known:
        return "IES_GPU_DEVICE" + (f"={plain}" if plain else "")
    return flag if value is None else f"{flag} {plain}"

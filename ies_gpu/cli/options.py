"""What the commands share: the parser, groups of options, and values with readable errors."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from itertools import combinations
from typing import Any, NoReturn

from ..files.remote import shown
from ..run.options import CHOICES

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


def add_details(option: Callable[..., Any]) -> None:
    option("-m", "--n-components", type=count, metavar="M", help="how many eigenvectors to choose from (20)")
    option("--radius", type=positive, metavar="R", help="largest distance between neighbours (3 * EPS)")
    option(
        "--no-self-loops",
        action="store_true",
        help="do not count a point as its own neighbour; use for high-dimensional noise",
    )
    option("--metric", choices=CHOICES["metric"], metavar="NAME", help="how distances are measured, such as cosine")
    option("--alpha", type=share, metavar="A", help="how strongly sampling density is corrected for, 0 to 1 (1)")
    option("--zeta", type=weight, metavar="Z", help="weight of the smoothness penalty, or auto (auto)")
    option("--percentile", type=percent, metavar="P", help="percentile of the regret, for --zeta auto (75)")
    searches = CHOICES["search"]
    option(
        "--search", choices=searches, metavar="HOW", help=f"{', '.join(searches[:-1])} or {searches[-1]} (exhaustive)"
    )
    option("--scale", choices=CHOICES["scale"], help="how the coordinates are scaled (unit)")
    option("--diffusion-time", type=time, metavar="T", help="time of --scale diffusion (1)")
    option(
        "--components",
        choices=CHOICES["components"],
        help="what to do if the graph is disconnected; 'each' writes one file per part, run.part1.npz, ... (auto)",
    )
    option("--tol", type=positive, metavar="T", help="upper bound on eigenvector residuals (1e-8)")
    option("--seed", dest="random_state", type=seed, metavar="N", help="seed of the eigensolver (0)")


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


def add_machine(option: Callable[..., Any], *, dtype: bool = True) -> None:
    option("--device", type=device, default="auto", metavar="DEV", help="auto, cpu, cuda or cuda:N (auto)")
    if dtype:
        option("--dtype", choices=CHOICES["dtype"], help="precision (float64)")
    option("--memory-limit", type=size, metavar="SIZE", help="memory to use, such as 4G or 500M (half of what is free)")
    option("--threads", dest="n_threads", type=count, metavar="N", help="CPU threads (all that the process may use)")


def add_job(option: Callable[..., Any]) -> None:
    option("--config", metavar="JOB.TOML", help="TOML file with options, such as bandwidth = 0.25")
    option("--checkpoint", metavar="DIR", help="save each finished stage in a local folder")
    option("--resume", action="store_true", help="continue from the stages in DIR, if there are any")


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


def number(wanted: str, allowed: Callable[[float], bool]) -> Callable[[str], float]:
    """A number that is allowed; ``wanted`` says which ones are."""

    def value(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None
        if not allowed(found):
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {text}")
        return found

    return value


positive = number("a number greater than 0", lambda found: 0 < found < math.inf)
percent = number("between 0 and 100", lambda found: 0 <= found <= 100)
share = number("between 0 and 1", lambda found: 0 <= found <= 1)
time = number("a number, 0 or more", lambda found: 0 <= found < math.inf)
penalty = number("auto or a number, 0 or more", lambda found: 0 <= found < math.inf)


def count(text: str) -> int:
    """A whole number; 1e6 is one too."""
    if re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d{1,2}", text) and float(text).is_integer():
        text = str(int(float(text)))
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, got {text!r}")
    return int(text)


def or_word(kind: Callable[[str], Any], *words: str) -> Callable[[str], Any]:
    """A value of a kind, or one of some words."""

    def value(text: str) -> Any:
        try:
            return text if text in words else kind(text)
        except argparse.ArgumentTypeError as error:
            listed = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
            raise argparse.ArgumentTypeError(f"{error}; or {listed}") from None

    return value


def seed(text: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, got {text!r}")
    return int(text)


def weight(text: str) -> float | str:
    """The weight of the penalty."""
    return text if text == "auto" else penalty(text)


def device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"must be auto, cpu, cuda or cuda:N, got {text!r}")
    return text


def size(text: str) -> int:
    """Bytes: 500M, 4G, 1.5GiB, or a plain number; powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"must be a size such as 4G or 500M, got {text!r}")
    number = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
    if number < 1 << 20:
        raise argparse.ArgumentTypeError(f"must be 1M or more, got {text}")
    return number

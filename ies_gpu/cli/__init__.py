"""The command line, ``ies-gpu COMMAND``: each module has ``add`` (the options of its commands) and runs them.

Only the standard library is imported here. Each command imports what it needs when it runs, so ``--help`` is instant.
"""

import argparse
import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .. import __version__
from ..findings import code_of, finding_of
from .console import Console
from .parser import WRONG_USE, Parser, WrongUse, say_in_flags

FAILED, INTERRUPTED, BROKEN_PIPE, TERMINATED = 1, 130, 141, 143
SILENT = logging.NullHandler()  # without a handler, what libraries log (tracebacks too) would be printed
COMMANDS = {"fit": "fit"} | dict.fromkeys(("show", "plot", "report", "transform"), "saved")  # and the module of each
COMMANDS |= {"data": "data", "demo": "data", "doctor": "doctor"}
# errors whose message is written for the user; for others the kind is shown too
EXPECTED = ("ValueError", "TypeError", "OSError", "ImportError", "DeviceError", "ClusterError", "NotConvergedError")


def program() -> None:
    """Run a command and end the process with its status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if sys.stdout.errors == "strict" and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an odd file name must not fail a finished job
    status = main()
    try:
        sys.stderr.flush()
    except OSError:  # a log on a full disk: Python would try once more, and end with a status of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    if status in (INTERRUPTED, TERMINATED):
        # Everything is cleaned up. Python would now wait for its threads, but one that was just starting when the
        # signal came may never end.
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    words = (sys.argv[1:] if argv is None else argv) or ["--help"]
    early = "json" if "--log-format json" in " ".join(words).replace("=", " ") else "lines"  # for usage errors
    console, debug, known = Console(sys.stderr, early), False, frozenset[str]()
    try:
        if words[0] == "help":
            words = [*words[1:2], "--help"]
        args = build_parser(words[0]).parse_args(words)
        usual = "quiet" if getattr(args, "quiet", False) else "bar" if sys.stderr.isatty() else "lines"
        console = Console(sys.stderr, "json" if getattr(args, "log_format", "") == "json" else usual)
        debug = args.debug
        known = frozenset(args.parser._option_string_actions)
        if not debug:
            logging.getLogger().addHandler(SILENT)
        with warnings.catch_warnings(), stopped_once():
            warnings.showwarning = lambda said, *_, **__: console.say("warning", sentence(said, known), code_of(said))
            status = args.run(args, console)
            console.close()
            console.end("done" if status == 0 else "failed", status)
            sys.stdout.flush()
            return status
    except WrongUse as error:
        console.say("error", str(error), status=WRONG_USE)
        return WRONG_USE
    except SystemExit as stop:  # --help, --version
        return int(stop.code or 0)
    except (KeyboardInterrupt, Terminated) as stop:
        how, status = ("SIGTERM", TERMINATED) if isinstance(stop, Terminated) else ("Ctrl-C", INTERRUPTED)
        console.close()
        console.write(f"ies-gpu: stopped by {how}")
        console.end(f"stopped by {how}", status)
        return status
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        console.close()
        if debug:
            raise
        console.say("error", sentence(error, known), code_of(error), status=FAILED)
        return FAILED


def sentence(said: Exception | str, known: Collection[str] = ()) -> str:
    """Return an error or a warning as it is shown, with flags for options; ``known`` are those of the command."""
    finding = finding_of(said)
    text = str(said) if finding is None else say_in_flags(finding, known)
    if isinstance(said, MemoryError):
        return f"out of memory ({text or 'no details'}); set --memory-limit, use --dtype mixed, or use fewer points"
    if isinstance(said, OSError) and said.filename and said.strerror:
        return f"{said.filename}: {said.strerror}"
    if isinstance(said, (str, Warning)) or any(kind.__name__ in EXPECTED for kind in type(said).__mro__):
        return text
    return f"{type(said).__name__}: {text} (unexpected; --debug shows the traceback)"


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of one command, or of all of them."""
    parser = Parser(
        prog="ies-gpu",
        description="Choose the few coordinates of a diffusion map that give a complete map of a manifold, even a "
        "long and thin one.",
        epilog="Start with 'ies-gpu demo'. For details: 'ies-gpu help COMMAND'. Exit status: 0 done, 1 failed, "
        "2 usage error, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ies-gpu {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in dict.fromkeys([COMMANDS[command]] if command in COMMANDS else COMMANDS.values()):
        import_module(f".{module}", __name__).add(commands)
    return parser


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def stopped_once() -> Iterator[None]:
    """Turn SIGTERM or Ctrl-C into an exception, once more if Python dropped that; ignore others while it cleans up."""
    if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
        yield
        return
    heard: list[type[BaseException]] = []

    def stop(number: int, _: Any) -> None:
        error = sys.exception()
        while error is not None and not isinstance(error, (KeyboardInterrupt, Terminated)):
            error = error.__context__
        if error is None:  # none is on its way
            heard.append(KeyboardInterrupt if number == signal.SIGINT else Terminated)
            raise heard[-1]

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    if before[signal.SIGINT] is not signal.default_int_handler:  # ignored, as a shell does for background jobs
        del before[signal.SIGINT]
    for each in before:
        signal.signal(each, stop)
    try:
        yield
    except Exception:
        if heard:  # Python drops what is raised inside a callback, whose library then fails for want of its work
            raise heard[-1] from None
        raise
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is stop:  # after the first signal, none may break into the end
                signal.signal(each, (lambda *_: None) if heard else handler)

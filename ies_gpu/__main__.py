"""``python -m ies_gpu`` is ``ies-gpu``: it begins here, so that Ctrl-C during the imports ends without a traceback."""

import os
import sys


def program() -> None:
    """Run a command and end the process with its status."""
    try:
        from .cli import program as command

        command()
    except KeyboardInterrupt:  # before the command could listen, or after it
        if sys.stderr is not None:
            print("ies-gpu: stopped by Ctrl-C", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(130)  # a library that is half imported has nothing to clean up


if __name__ == "__main__":
    program()

"""The command line through CuPy on the CPU, such as ``python -m tests.real_cupy doctor --selftest --points 1000``."""

import sys

from . import install, plugged_in

install()

if __name__ == "__main__":
    from ies_gpu.cli import main

    with plugged_in():
        sys.exit(main())

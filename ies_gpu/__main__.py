"""``python -m ies_gpu`` is ``ies-gpu``."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())

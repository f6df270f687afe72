"""``python -m ies_gpu`` is ``ies-gpu``."""

from .cli import program

if __name__ == "__main__":
    program()

"""The command line with the method of this folder added: ``python run_counter.py counter DECK ...``."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parents[1])

import qsim  # noqa: E402 - needs the path
from qsim import methods  # noqa: E402
from qsim.__main__ import main  # noqa: E402

qsim.__path__.append(str(HERE))
methods.TABLE["counter"] = "Counts."

if __name__ == "__main__":  # a process that works for a sweep imports this file for the method
    main()

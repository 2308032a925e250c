"""The command line, by what a user does: decks, one run, many runs, results, figures, the installation.

`cli` is the group of all commands; `main` runs it and exits with its code.
"""

from qsim.cli.group import cli, main

__all__ = ["cli", "main"]

"""Entry point of ``python -m qsim``."""

from qsim.cli import main

if __name__ == "__main__":
    main()

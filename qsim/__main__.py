"""Entry point of ``qsim`` and ``python -m qsim``: stop requests are heard from the first line on."""

import gc
import sys

from qsim.core.device.blas import start_with_one_thread
from qsim.core.device.compilers.caches import import_later
from qsim.core.device.compilers.compilation import collect_rarely
from qsim.core.run.signals import before_the_work
from qsim.methods import TABLE


def main() -> None:
    """Run the command line and exit with its code."""
    before_the_work(sys.argv[1:], TABLE)
    start_with_one_thread()
    import_later()
    collect_rarely()
    from qsim.cli import main as command_line

    try:
        command_line()
    except SystemExit as end:
        if (aside := sys.modules.get("qsim.core.run.stops.aside")) is not None:
            aside.leave(end.code)
        raise
    finally:
        # What is left goes with the process: Python need not search it for garbage once more.
        gc.freeze()


if __name__ == "__main__":
    main()

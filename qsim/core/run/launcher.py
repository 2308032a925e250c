"""Start the ranks of a run on this machine: with ``--gpus N`` the installed MPI's ``mpirun`` replaces the process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from qsim.core.device.device import cuda_status
from qsim.core.errors import DeviceError
from qsim.core.install import install_extra

__all__ = ["become_ranks", "find_mpirun", "launch_environment", "require_gpus"]

LAUNCHERS = ("mpirun", "mpiexec")
# Open MPI: as root, more ranks than cores, and no rank bound to a core of its own.  Other libraries do not know these.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def become_ranks(ranks: int, words: Sequence[str]) -> None:
    """Replace this process by `ranks` processes on this machine that run one command line of qsim; never returns.

    Signals go to them through the launcher, and their exit code is that of this process.

    Parameters
    ----------
    ranks : int
        Number of processes.
    words : sequence of str
        What stands after ``qsim``.

    Raises
    ------
    DeviceError
        If there is no MPI.
    """
    mpirun = find_mpirun(ranks)
    command = [mpirun, "-n", str(ranks), sys.executable, "-m", "qsim", *words]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # no shell: the words go as they are
    os.execve(mpirun, command, launch_environment(os.environ))


def find_mpirun(ranks: int) -> str:
    """Return the launcher of the MPI that this Python uses: the one beside it, else the first of the search path.

    Raises
    ------
    DeviceError
        If mpi4py or a launcher is missing.
    """
    what = "mpi4py is not installed" if find_spec("mpi4py") is None else ""
    beside = [str(Path(sys.executable).with_name(name)) for name in LAUNCHERS]
    found = next(filter(None, map(shutil.which, [*beside, *LAUNCHERS])), None)
    if what or found is None:
        raise DeviceError(
            f"--gpus {ranks} starts {ranks} processes with MPI, but {what or 'there is no mpirun'}",
            hint=f"{install_extra('mpi')} brings mpi4py and mpirun; without them, one GPU: leave --gpus out",
        )
    return found


def launch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the launcher; what is set already stays."""
    return {**ENVIRONMENT, **environ}


def require_gpus(count: int) -> None:
    """Refuse more GPUs than there are.

    Raises
    ------
    DeviceError
        With the number found.
    """
    status = cuda_status()
    if status.count >= count:
        return
    if not status.count:
        raise DeviceError(f"--gpus {count}: {status.reason}; found: {status}", hint=status.fix())
    raise DeviceError(
        f"--gpus {count}, but this machine shows {status.count}: {', '.join(status.names)}",
        hint=f"use --gpus {status.count}, or check CUDA_VISIBLE_DEVICES",
    )

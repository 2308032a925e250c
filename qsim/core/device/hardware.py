"""The host: name of the processor, threads and memory that this process may use.

The operating system's numbers are limits of the machine; the control group (batch systems, containers) sets
limits of the job, which win where they are smaller.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["available_threads", "cpu_name", "free_host_memory", "resident_memory"]

CGROUP = Path("/sys/fs/cgroup")


def cpu_name() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError):
        # Architectures call the entry by different names.
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "CPU"


def available_threads(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of CPU threads that this process may use.

    The smallest of: cores of its affinity mask, CPU limit of its control group, ``NUMBA_NUM_THREADS``, ``SLURM_CPUS_PER_TASK``.
    """
    # Cores that the scheduler may give to this process, which is what a batch system sets.
    limits = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    # A container may be limited in time rather than in cores: 2.5 CPUs are two threads.
    if (quota := _cgroup_cpus()) is not None:
        limits.append(max(1, int(quota)))
    for name in ("NUMBA_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        with contextlib.suppress(ValueError):
            limits.append(max(1, int(environ.get(name, ""))))
    return min(limits)


def _cgroup_cpus() -> float | None:
    """Return the CPU limit of the control group (version 2 or 1) in CPUs; None if there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # Microseconds of processor time per period: their ratio is a number of CPUs. Version 2
        # of control groups has both in one file, version 1 in two.
        quota, period = (CGROUP / "cpu.max").read_text(encoding="utf-8").split()[:2]
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        quota = (CGROUP / "cpu/cpu.cfs_quota_us").read_text(encoding="utf-8")
        period = (CGROUP / "cpu/cpu.cfs_period_us").read_text(encoding="utf-8")
        return int(quota) / int(period) if int(quota) > 0 else None
    return None


def resident_memory() -> int:
    """Return the bytes of memory that this process occupies; 0 if the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def free_host_memory() -> int:
    """Return the bytes of host memory that can still be used; 0 if the system does not say."""
    # Whichever is smaller: the memory of the machine, or what is left of the job.
    amounts = [amount for amount in (_meminfo_available(), _cgroup_memory()) if amount is not None]
    return max(0, min(amounts)) if amounts else 0


def _meminfo_available() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            # Not MemFree: caches of files are given back when needed.
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if sys.platform != "win32" else None
    return None


def _cgroup_memory() -> int | None:
    """Return limit minus use of the memory control group; None without a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
            return int((CGROUP / limit).read_text(encoding="utf-8")) - int(
                (CGROUP / used).read_text(encoding="utf-8")
            )
    return None

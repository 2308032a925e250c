"""Which of two devices is faster: an estimate from the plan at speeds that were measured once on this machine.

``auto`` takes the GPU where there is one, unless the processor will have finished sooner: a short run is over before a GPU's
libraries are loaded, and a few thousand numbers that depend on the step before occupy a hundredth of it.  The estimate is rough,
a factor of two at best, which is enough: where the devices are that close, either will do.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from qsim.core.device import tuning
from qsim.core.device.device import cpu
from qsim.core.device.pool import WAKE
from qsim.core.errors import DeviceError
from qsim.core.text import rough_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.device.device import Device
    from qsim.core.run.stages import Plan
    from qsim.core.run.work import Work

__all__ = ["Speeds", "chosen", "faster", "on_cuda", "on_host", "speeds", "the_faster"]

# Seconds until a GPU computes: CuPy, context, libraries, modules. Measured (H100, H200, kernels in the
# cache): 1.2 to 2.
START = 1.5
# Numbers that a GPU must have at once to be busy: threads of all multiprocessors (H100, H200: 270 000).
LANES = 250_000.0
# Part of its peak that a busy GPU reaches in loops of this program. Measured (H200): tridiag 0.015, qmc (H2O)
# 0.017.
SHARE = 0.015
# Operations of loops for each second of `Work.core`, which is told for a core like that beside the GPU of
# `SHARE`.
CORE_FLOPS = 2e9
# Part of a further thread that counts.
GAIN = 0.8


@dataclass(frozen=True)
class Speeds:
    """Measured speeds of a GPU and of one thread of its host; by default those of an H200 and of a Xeon beside it.

    Attributes
    ----------
    host_flops, host_dense
        Operations per second of a thread: loops over arrays, matrix products.
    host_bytes, cuda_bytes
        Bytes per second, copied.
    cuda_dense
        Operations per second in matrix products of double precision.
    launch
        Seconds of a launch that depends on the one before.
    """

    host_flops: float = 2e9
    host_dense: float = 4e10
    host_bytes: float = 2.4e10
    cuda_bytes: float = 4.2e12
    cuda_dense: float = 5e13
    launch: float = 5e-6


def chosen(plan: Plan, device: Device, auto: bool, ranks: int) -> tuple[Device, list[str]]:
    """Return where a plan is computed, and why.

    Parameters
    ----------
    plan, device
        The plan, and the device that was found.
    auto
        Whether the choice was left to the program.
    ranks
        Processes; several keep the GPU, as each would choose by measurements of its own.

    Raises
    ------
    DeviceError
        If a GPU was asked for by name and the plan has no CUDA kernels.
    """
    if plan.cpu_only and device.is_cuda:
        if not auto:
            raise DeviceError(f"{plan.cpu_only}: on the CPU only", hint="run.device (--device): auto or cpu")
        why = f"auto: the CPU, as there are no CUDA kernels for this run: {plan.cpu_only}"
        return cpu(device.threads), [why]
    return the_faster(plan.work, device) if auto and ranks == 1 else (device, [])


def the_faster(work: Work, device: Device) -> tuple[Device, list[str]]:
    """Return a GPU or its host, whichever is faster by an estimate, and why; a CPU as it is."""
    if not device.is_cuda:
        return device, []
    takes, reason = faster(work, device, speeds(device))
    return (device if takes else cpu(device.threads)), [reason]


def faster(work: Work, device: Device, speed: Speeds) -> tuple[bool, str]:
    """Return whether a GPU is the better device for a plan, and the reason in words.

    Parameters
    ----------
    work
        From the plan.
    device
        The GPU, with the threads that the host would use.
    speed
        Of both.
    """
    host, cuda = on_host(work, speed, device.threads), on_cuda(work, speed)
    threads = f"{device.threads} thread{'s' if device.threads > 1 else ''}"
    if work.lanes <= 0.0 or host <= 0.0:
        return True, f"auto: {device.label}, as the work is not known before the run"
    if work.host >= work.core > 0.0:
        return False, "auto: the CPU, as this task has nothing for a GPU; --device cuda overrules"
    times = f"about {rough_time(cuda)} on {device.label} and {rough_time(host)} on {threads} of the CPU"
    if host < cuda:
        return False, f"auto: the CPU, by an estimate of {times}; --device cuda overrules"
    return True, f"auto: {device.label}, by an estimate of {times}; --device cpu overrules"


def on_host(work: Work, speed: Speeds, threads: int) -> float:
    """Return the seconds of a plan on the host, without compilation; 0 if they are not known."""
    loops = max(work.flops, work.operations) / speed.host_flops
    once = work.core or max(loops + work.dense / speed.host_dense, work.bytes / speed.host_bytes)
    # a call of t threads takes w / t + WAKE t, as in core/device/pool.py
    paying = math.sqrt(once / (work.launches * WAKE)) if work.launches > 0.0 else math.inf
    return work.times * once / (1.0 + GAIN * (max(1.0, min(float(threads), paying)) - 1.0))


def on_cuda(work: Work, speed: Speeds) -> float:
    """Return the seconds of a plan on the GPU, from its first library to the end."""
    busy = min(1.0, work.lanes / LANES) if work.lanes > 0.0 else 1.0
    loops = max(work.flops, work.operations, (work.core - work.host) * CORE_FLOPS)
    computing = (loops / (SHARE * speed.cuda_dense) + work.dense / speed.cuda_dense) / busy
    once = max(computing + work.launches * speed.launch, work.bytes / speed.cuda_bytes)
    return START + work.times * (work.host + once)


# --------------------------------------------------------------------------------------- measurement


def speeds(device: Device) -> Speeds:
    """Return the speeds of this machine, measured in half a second the first time and kept from then on.

    Without tuning (``QSIM_TUNE=off``) or where a measurement fails, typical ones.
    """
    if not tuning.enabled():
        return Speeds()
    known = _known(tuning.recall("speeds", device, {}))
    if known is not None:
        return known
    with contextlib.suppress(Exception):  # whatever is wrong will be told by the run
        found = Speeds(**_host(), **_cuda(device))
        tuning.remember("speeds", device, {}, asdict(found))
        return found
    return Speeds()


def _known(kept: Any) -> Speeds | None:
    """Return what was kept, if it makes sense."""
    names = {field.name for field in fields(Speeds)}
    if not isinstance(kept, dict) or set(kept) != names:
        return None
    if not all(
        isinstance(value, int | float) and math.isfinite(value) and value > 0 for value in kept.values()
    ):
        return None
    return Speeds(**kept)


def _best(work: Callable[[], object], repeats: int = 4) -> float:
    found = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return max(min(found), 1e-9)


def _host() -> dict[str, float]:
    """Measure one thread of the host."""
    import numpy as np

    from qsim.core.device.blas import small_matrices

    n = 384
    a = np.random.default_rng(0).standard_normal((n, n))
    x, y = np.ones(4096), np.ones(4096)
    big = np.ones(1 << 22)
    other = np.empty_like(big)

    def loops() -> None:
        for _ in range(200):
            np.multiply(x, 1.0000001, out=y)
            np.add(y, 1e-9, out=x)

    with small_matrices(1):
        dense = _best(lambda: a @ a)
    return {
        "host_flops": 400 * x.size / _best(loops),
        "host_dense": 2.0 * n**3 / dense,
        "host_bytes": 2.0 * big.nbytes / _best(lambda: np.copyto(other, big)),
    }


def _cuda(device: Device) -> dict[str, float]:
    """Measure the GPU."""
    xp = device.xp
    with device.use():
        n, launches = 2048, 300
        a, product = xp.ones((n, n)), xp.empty((n, n))
        big = xp.ones(1 << 25)
        other, one = xp.empty_like(big), xp.ones(32)

        def chain() -> None:
            for _ in range(launches):
                xp.add(one, 1.0, out=one)

        def timed(work: Callable[[], object]) -> float:
            def whole() -> None:
                work()
                device.synchronize()

            whole()
            return _best(whole)

        return {
            "cuda_dense": 2.0 * n**3 / timed(lambda: xp.matmul(a, a, out=product)),
            "cuda_bytes": 2.0 * big.nbytes / timed(lambda: xp.copyto(other, big)),
            "launch": timed(chain) / launches,
        }

"""Choose the device of a run: the GPU from a size on that was measured for each task, the processor below it.

A short run is over before a GPU's libraries are loaded, and a few thousand numbers that depend on the step before occupy a
hundredth of a GPU.  Whole commands were timed on a GPU and on its host (docs/howto/devices.md): one number of the deck, such as
its walkers times electrons times generations, tells the faster device of nearly all of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qsim.core.device.cuda.driver import driver_version
from qsim.core.device.device import cpu
from qsim.core.errors import NoGpuError

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.core.run.stages import Plan, Size

__all__ = ["chosen", "settled"]


def settled(plan: Plan, ranks: int) -> list[str]:
    """Return why ``auto`` takes the CPU whatever GPU there is: then none is looked for, which loads CuPy; nothing if it may not.

    Without a driver a run says that it found no GPU.
    """
    if ranks > 1 or not driver_version():
        return []
    if plan.cpu_only:
        return [_without_kernels(plan)]
    if plan.size is None or plan.size.is_for_gpu:
        return []
    return [_reason(plan.size, "")]


def chosen(plan: Plan, device: Device, auto: bool, ranks: int) -> tuple[Device, list[str]]:
    """Return where a plan is computed, and why.

    Parameters
    ----------
    plan, device
        The plan, and the device that was found.
    auto
        Whether the choice was left to the program.
    ranks
        Processes; several keep their GPUs.

    Raises
    ------
    NoGpuError
        If a GPU was requested by name and the plan has no CUDA kernels.
    """
    if not device.is_cuda:
        return device, []
    if plan.cpu_only:
        if not auto:
            raise NoGpuError(f"{plan.cpu_only}: on the CPU only", hint="run.device (--device): auto or cpu")
        return cpu(device.threads), [_without_kernels(plan)]
    if not auto or ranks > 1:
        return device, []
    if plan.size is None:
        return device, [f"auto: {device.label}, as the size of the run is not known before it"]
    reason = _reason(plan.size, device.label)
    return (device if plan.size.is_for_gpu else cpu(device.threads)), [reason]


def _without_kernels(plan: Plan) -> str:
    return f"auto: the CPU, as there are no CUDA kernels for this run: {plan.cpu_only}"


def _reason(size: Size, label: str) -> str:
    """Return the reason for a device in words."""
    if math.isinf(size.gpu):
        return "auto: the CPU, as this task has nothing for a GPU; --device cuda overrules"
    if size.is_for_gpu:
        return f"auto: {label}, faster from {size.gpu:.1g} {size.name} on ({size.value:.2g} here); --device cpu overrules"
    return (
        f"auto: the CPU, as a GPU is faster from {size.gpu:.1g} {size.name} on ({size.value:.2g} here); "
        "--device cuda overrules"
    )

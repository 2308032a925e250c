"""The time that a plan takes: at least, from its operations at rates that no device reaches, and about, from measured speeds.

A method counts what cannot be avoided: flops of its kernels, and bytes of arrays too large for caches and registers.  The rates
are above anything measured or sold, so that "at least 7 days" holds on every machine; a run of small systems or short
steps takes up to some hundred times as long, which the run itself tells once its speed is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.text import long_time, rough_time

if TYPE_CHECKING:
    from qsim.core.device.device import Device

__all__ = ["CACHED", "Work"]

DAY = 86400.0
# Days of work from which a deck is refused.
MOST_DAYS = 1000.0
# Bytes of an array above which it passes main memory: no GPU holds more in registers, shared memory and L2
# (H200: 127 MB).
CACHED = 256_000_000

# Flops per second of a thread in compiled loops, double precision: 4 GHz, 4 numbers per vector, 2
# instructions per cycle. Measured in loops of this program: 1 to 5e9.
CPU_FLOPS = 30e9
# The same of the matrix products of a library: 4.7 GHz, 8 numbers, 2 fused multiply-adds per cycle (AVX-512).
# Measured (Xeon, 16 cores, zgemm): 57e9.
CPU_DENSE = 150e9
# Bytes per second that a thread moves. Measured (copy, one thread): 24e9.
CPU_BYTES = 100e9
# Flops per second of a GPU, double precision. Measured (H200, zgemm): 54e12; its data sheet: 67e12.
CUDA_FLOPS = 100e12
# Bytes per second of a GPU. Measured (H200): main memory 4.3e12, L2 8.4e12.
CUDA_BYTES = 10e12
# Flops in single precision per flop in double, at most (vectors of twice as many numbers).
SINGLE = 2.0


@dataclass(frozen=True)
class Work:
    """Operations that a run cannot do without, known before anything is allocated.

    Parameters
    ----------
    flops
        Floating-point operations of loops; a complex multiplication is 6, an addition 2.
    dense
        Those of matrix products and factorisations of a library.
    bytes
        Bytes read and written, of arrays larger than `CACHED` only.
    about
        Seconds at a measured speed, where the method knows one; told instead of the bound.
    reduce
        Deck key to lower, such as ``"evolve.t_final"``.
    core
        Seconds of one core at the speed measured with decks of this kind (mostly within a factor of two on a core of a server of
        2024); 0 where the run chooses its steps itself, so that nothing is known before.
    each
        What `core` is the time of, such as ``"sweep"``, if it is not the whole run.
    times
        How often that comes, roughly; for the choice of a device, as what follows.
    operations
        Flops that the loops do, where `flops` leaves out most of them.
    lanes
        Numbers that can be computed at the same time; 0 if it is not known.
    launches
        Launches, or steps within one, that wait for the one before.
    host
        Seconds of one core, part of `core`, that stay on the host of a GPU: set-up, libraries, files; all of `core` where a task
        has nothing for a GPU.
    """

    flops: float = 0.0
    dense: float = 0.0
    bytes: float = 0.0
    about: float = 0.0
    reduce: str = ""
    core: float = 0.0
    each: str = ""
    times: float = 1.0
    operations: float = 0.0
    lanes: float = 0.0
    launches: float = 0.0
    host: float = 0.0

    def least(self, device: Device, precision: str, ranks: int = 1) -> float:
        """Return the seconds that the run takes at least.

        Parameters
        ----------
        device
            Where a rank computes; a CPU with all its threads.
        precision
            ``"single"`` and ``"mixed"`` may be faster than ``"double"`` by `SINGLE`.
        ranks
            Processes that share the work.
        """
        if device.is_cuda:
            flops = dense = CUDA_FLOPS
            moved = CUDA_BYTES
        else:
            flops, dense, moved = (device.threads * rate for rate in (CPU_FLOPS, CPU_DENSE, CPU_BYTES))
        faster = 1.0 if precision == "double" else SINGLE
        computing = (self.flops / flops + self.dense / dense) / faster
        return max(computing, self.bytes / moved) / ranks

    def told(self, least: float) -> str:
        """Return the time in words: ``at least 12 days``; empty for less than a minute."""
        if self.about >= DAY:
            return f"about {long_time(self.about)}"
        return f"at least {long_time(least)}" if least >= 60.0 else ""

    def estimate(self, least: float, *, cuda: bool = False, compiling: float = 0.0) -> str:
        """Return what ``--dry-run`` says of the time.

        Parameters
        ----------
        least
            From :meth:`least`, s.
        cuda
            The run uses a GPU, whose speed `core` does not tell.
        compiling
            Seconds of compilation that come first, s.
        """
        said = [self.told(least)]
        if self.core > 0 and not cuda and self.about < DAY:
            said.append(
                f"about {rough_time(self.core)}{f' per {self.each}' if self.each else ''} on one core"
            )
        if not any(said):
            said.append("not known before the run, which shows it")
        if compiling > 0:
            said.append(f"before it, once for this machine, about {rough_time(compiling)} to compile kernels")
        return "; ".join(text for text in said if text)

    def findings(self, least: float) -> list[Finding]:
        """Return a warning about days of work, or an error where they are absurd.

        Parameters
        ----------
        least
            From :meth:`least`, s.
        """
        days = max(least, self.about) / DAY
        if days < 1.0:
            return []
        if days < MOST_DAYS:
            return [Finding(self.reduce, f"the run takes {self.told(least)}", "warning")]
        text = f"the run takes {self.told(least)}, and more than {MOST_DAYS:g} days are refused; reduce {self.reduce}"
        return [Finding(self.reduce, text)]

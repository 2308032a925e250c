"""Check that several ranks may share a run: one deck, work for each, and devices that they can tell apart."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from qsim.core.deck.load import changed_keys
from qsim.core.errors import DeckError, DeviceError

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.core.run.stages import Plan

__all__ = ["about_ranks", "require_one_deck", "require_share"]


def require_one_deck(loaded: LoadedDeck[Any], options: object, comm: Comm) -> None:
    """Refuse ranks that read different decks: files of their own node, or other options."""
    mine = (loaded.sha256, loaded.physics(), options)
    for rank, other in enumerate(comm.allgather(mine)):
        if other != mine:
            keys = ", ".join(changed_keys(mine[1], other[1])) or "its text or options"
            raise DeckError(
                f"rank {comm.rank} and rank {rank} disagree about the deck: {keys}",
                hint="all ranks need the same command and the same files, on a file system that all nodes share",
            )


def require_share(loaded: LoadedDeck[Any], plan: Plan, comm: Comm) -> None:
    """Refuse more processes than can share the work, rather than let them compute the same.

    Raises
    ------
    DeviceError
        With the number that can.
    """
    if comm.size <= plan.ranks:
        if plan.doubling and comm.size & (comm.size - 1):
            raise DeviceError(
                f"{comm.size} ranks were started, but the {plan.shared} of this {loaded.deck.method} deck occupy 1, 2, 4, 8, ...",
                hint=f"start {1 << (comm.size.bit_length() - 1)} ranks",
            )
        return
    method = loaded.deck.method
    if plan.ranks == 1:
        raise DeviceError(
            f"this {method} deck runs on one rank, but {comm.size} were started"
            + (f": {plan.alone}" if plan.alone else ""),
            hint="start it without mpirun, srun and --gpus; 'qsim sweep --slurm' runs many decks at the same time",
        )
    raise DeviceError(
        f"{comm.size} ranks were started, but the {plan.ranks} {plan.shared} of this {method} deck occupy at most "
        f"{plan.ranks}",
        hint=f"start at most {plan.ranks} ranks",
    )


def about_ranks(device: Device, plan: Plan, comm: Comm) -> list[str]:
    """Return notices about the processes of the run and the devices that they share; a collective call."""
    if comm.size == 1:
        return []
    notices = [f"{comm.size} ranks share the {plan.shared}, {comm.local_size} of them on this node"]
    # by what the devices are, not by their numbers: a launcher may show each process another GPU as number 0
    owners = comm.allgather((socket.gethostname(), device.identity))
    crowded = []
    for host in dict.fromkeys(host for host, _ in owners):
        gpus = [identity for name, identity in owners if name == host and identity]
        if len(gpus) > len(set(gpus)):
            crowded.append((len(gpus), len(set(gpus)), host))
    if crowded:
        ranks, different, host = crowded[0]
        those = f"{different} GPU{'s' if different > 1 else ''} of {host}"
        more = f" (and {len(crowded) - 1} nodes more)" if len(crowded) > 1 else ""
        notices.append(f"warning: {ranks} ranks share {those}{more}; one rank per GPU is faster")
    return notices + no_gain(device, plan, comm.size)


def no_gain(device: Device, plan: Plan, ranks: int) -> list[str]:
    """Return why several GPUs will not make a run faster than one, if they will not."""
    if not device.is_cuda:
        return []
    if plan.size is not None and not plan.size.is_for_gpu:
        return [
            f"warning: {ranks} GPUs will not help: below {plan.size.gpu:.1g} {plan.size.name} ({plan.size.value:.2g} here) "
            "a processor is faster than one of them"
        ]
    # the estimate is that of one rank
    if plan.capacity and 0 < ranks * plan.memory.device <= device.free_memory():
        return [
            f"warning: {ranks} GPUs will hardly help: one holds these {plan.shared}, and what several save they lose in "
            "exchanging them; several are for what one cannot hold"
        ]
    return []

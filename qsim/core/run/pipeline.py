"""The life of a run, the same for every method: deck -> build -> run -> results file -> figures.

`execute` is the whole program; the stages that it calls are described in `qsim.core.run.stages`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from qsim.core.deck.blocks import Deck
from qsim.core.deck.load import DeckSource, LoadedDeck, changed_keys
from qsim.core.device.blas import small_matrices
from qsim.core.device.compilers import caches
from qsim.core.device.compilers.ahead import Ahead, ahead, processes_to_compile
from qsim.core.device.compilers.compilation import collect_as_usual
from qsim.core.device.compilers.sound import damage_told
from qsim.core.device.cuda.driver import device_of, driver_version, prepare
from qsim.core.device.device import Device, out_of_memory, requested_device, requested_threads, select
from qsim.core.device.footprint import kernels_are_compiled, seconds_to_compile
from qsim.core.device.hardware import available_threads
from qsim.core.device.parallel import agreed, first, world
from qsim.core.device.rng import draw_seed
from qsim.core.errors import DeckError, DeviceError, FileError
from qsim.core.results.jsonable import json_ready
from qsim.core.results.plotting import ready
from qsim.core.results.results import open_results
from qsim.core.run import checkpoint, choice
from qsim.core.run.files.identity import differing, summary_of
from qsim.core.run.files.lock import OutputLock, lock_path
from qsim.core.run.files.paths import (
    figure_paths,
    paths_in,
    refuse_inputs,
    refuse_unusable,
    require_folder,
)
from qsim.core.run.files.publish import keep_state, publish, write
from qsim.core.run.job import Job, Options, Outcome, listed, make_job
from qsim.core.run.progress import Monitor, RunClock
from qsim.core.run.ranks import about_ranks, require_one_deck, require_share
from qsim.core.run.signals import Signals, leaving_later, on_early_exit
from qsim.core.run.stages import Method, Plan
from qsim.core.run.timing.measure import SECONDS, Stopwatch, measured
from qsim.core.text import rough_time
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.device.parallel import Comm

__all__ = ["Options", "Outcome", "execute"]

D = TypeVar("D", bound=Deck)
P = TypeVar("P")
R = TypeVar("R")


def execute(method: str, deck: DeckSource, options: Options | None = None) -> Outcome:
    """Run one deck, from the file to the figures.

    Everything that can be refused (the deck, existing files, the device, memory) is refused before any work.

    Parameters
    ----------
    method
        Name of the method; the deck must be for it.
    deck
        The YAML file, or its keys and values as a mapping.
    options
        See `Options`.

    Returns
    -------
    Outcome
        Summary and results file.

    Raises
    ------
    QsimError
        One of the errors of `qsim.core.errors`; `Stopped` after a checkpoint was written on request.
    """
    start = time.monotonic()
    comm = world()
    job = agreed(comm, lambda: make_job(Method[Deck, object, object](method), deck, options or Options()))
    agreed(comm, lambda: require_one_deck(job.loaded, (job.options.resume, job.options.force), comm))
    if job.options.dry_run:
        compiled = kernels_are_compiled(job.loaded.deck.method)
        plan, device, notices = agreed(comm, lambda: _plan(job, comm, compiled))
        notices += about_ranks(device, plan, comm)
        content = _planned(job.loaded, plan, device, notices)
        if job.options.measure:
            content["measured"] = _measured(job, plan, device)
        return Outcome(content, job.files.results)
    with ExitStack() as stack:
        lock = first(comm, lambda: _locked(job, stack))
        # only now, since a run that held the lock before may have left a checkpoint
        resuming = comm.bcast(job.options.resume and job.files.checkpoint.exists())
        job = replace(job, resuming=resuming)
        if first(comm, lambda: _is_complete(job)):
            return first(comm, lambda: _already_complete(job))
        first(comm, lambda: _refuse_what_cannot_be_written(job))
        with job.loaded.placing(), _compilers(job, comm) as compilers:
            return _work(job, comm, start, lock, compilers)


def _locked(job: Job[D, P, R], stack: ExitStack) -> list[str]:
    """Keep other runs away from the output until the end of the run; return notices about that."""
    require_folder(job.files.results.parent)
    lock = OutputLock(job.files.stem)
    with leaving_later():
        stack.enter_context(lock)
        on_early_exit(lock.release)
    return lock.notices


def _compilers(job: Job[D, P, R], comm: Comm) -> AbstractContextManager[Ahead]:
    """Return the processes that compile kernels beside the run, none where it is one of several."""
    settings, method = job.loaded.deck.run, job.loaded.deck.method
    threads = 1
    # A mistaken number of threads is told with the plan.
    with suppress(DeviceError):
        wanted = requested_threads(job.options.threads, settings.threads)
        threads = available_threads() if wanted == "auto" else min(wanted, available_threads())
    processes = processes_to_compile(threads) if comm.size == 1 else 0
    return ahead(method, job.loaded.data, processes, cold=not kernels_are_compiled(method))


def _certain_device(job: Job[D, P, R]) -> str | None:
    """Return ``"cpu"`` or ``"cuda"`` where the plan is not needed to tell; None otherwise."""
    asked, _ = requested_device(job.options.device, job.loaded.deck.run.device)
    if asked == "cpu" or (asked == "auto" and driver_version() == 0):
        return "cpu"
    return "cuda" if asked.startswith("cuda") else None


def _work(
    job: Job[D, P, R], comm: Comm, start: float, about_files: Sequence[str], compilers: Ahead
) -> Outcome:
    """Carry out a run whose files may be written; `about_files` are notices about them."""
    method, loaded, files = job.method, job.loaded, job.files
    # Before anything reads a data file: what the results will be of.
    stamps, physics = _stamps(loaded), loaded.physics()
    if (certain := _certain_device(job)) is not None:
        compilers.on(certain)
    plan, device, notices = agreed(comm, lambda: _plan(job, comm, not compilers.cold))
    compilers.on("cuda" if device.is_cuda else "cpu")
    notices += about_ranks(device, plan, comm)
    restored = first(comm, lambda: _restore(job, device))
    with (
        Signals(lock_path(files.stem)) as signals,
        _monitor(job, device, restored, signals, start, physics) as monitor,
    ):
        monitor.comm, monitor.compilers = comm, compilers
        if (
            job.options.force and comm.rank == 0
        ):  # else a later --resume would continue the run that this one replaces
            files.checkpoint.unlink(missing_ok=True)
        _greet(monitor, loaded, device, [*about_files, *notices, *restored.notices])
        if not job.replaces and (strangers := job.earlier()):
            monitor.warn(f"of an earlier run, not of these results: {listed(strangers)}")
        with out_of_memory(device, plan.memory), device.use(), small_matrices(device.threads):
            if compilers.cold:
                monitor.compiling()
            with monitor.stage("build"):
                told = list(loaded.warnings)
                problem = method.build.build(loaded, device)
                # What only the build could find, as of a self-consistent field that a plan never runs.
                _warn(monitor, [text for text in loaded.warnings if text not in told])
                agreed(comm, lambda: _require_unchanged(loaded, stamps, physics))
            compute = method.run.run  # imported here, so that the monitor sees the compiler that it loads
            collect_as_usual()
            for notice in getattr(problem, "notices", ()):
                monitor.note(notice)
            with monitor.stage("run"), monitor.continuing():
                result = compute(problem, monitor)
                device.synchronize()
            monitor.end()
            # Once, after the build and the run have looked into the cache; what comes later is told at the end.
            for notice in damage_told():
                monitor.note(notice)
            monitor.warnings[:] = dict.fromkeys(
                text for texts in comm.allgather(monitor.warnings) for text in texts
            )
            with monitor.stage("write"):
                first(comm, lambda: _finish(job, device, result, monitor))
        return first(comm, lambda: publish(job, job.figures, monitor))


def _stamps(loaded: LoadedDeck[D]) -> dict[Path, tuple[int, ...]]:
    """Return what changes with each writing of a data file, whatever is written."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in paths_in(loaded.deck):
        # A file that is gone is told by its content.
        with suppress(OSError):
            about = path.stat()
            found[path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return found


def _require_unchanged(
    loaded: LoadedDeck[D], stamps: Mapping[Path, tuple[int, ...]], physics: Mapping[str, Any]
) -> None:
    """Refuse data files that were written while they were read: nobody knows which content the problem has."""
    changed = changed_keys(physics, loaded.physics())
    if changed := changed or [
        path.name for path, stamp in _stamps(loaded).items() if stamps.get(path) != stamp
    ]:
        raise FileError(f"a data file changed while it was read: {', '.join(changed)}", hint="run again")


def _finish(job: Job[D, P, R], device: Device, result: R, monitor: Monitor) -> None:
    if changed := changed_keys(monitor.meta["physics"], job.loaded.physics()):
        monitor.warn(
            f"a data file changed during the run, whose results are recorded as of the earlier content: {', '.join(changed)}"
        )
    write(job, device, result, monitor)
    keep_state(job, result, monitor)


def _is_complete(job: Job[D, P, R]) -> bool:
    """Return True if there is nothing left to do for a run that is to be resumed."""
    return job.options.resume and job.files.results.exists() and (not job.resuming or _nothing_to_add(job))


def _plan(job: Job[D, P, R], comm: Comm, compiled: bool) -> tuple[Plan, Device, list[str]]:
    """Return the plan of a run, with the memory of the interpreter and, if need be, of the compiler, and where it computes.

    Raises
    ------
    DeckError, DeviceError
        If the method refuses the deck, the device cannot be used, the problem does not fit, or takes years.
    """
    loaded, settings = job.loaded, job.loaded.deck.run
    with small_matrices(1):  # a plan takes fractions of a second: what it computes is small
        plan = job.method.build.plan(loaded)
    loaded.raise_for(plan.findings)
    require_share(loaded, plan, comm)
    asked, _ = requested_device(job.options.device, settings.device)
    spared = choice.settled(plan, comm.size) if asked == "auto" else []
    if not spared and comm.size == 1:
        prepare(device_of("cuda" if asked == "auto" else asked))
    device, notices = select(
        "cpu" if spared else job.options.device,
        settings.device,
        threads=requested_threads(job.options.threads, settings.threads),
        local_rank=comm.local_rank,
    )
    device, reasons = choice.chosen(plan, device, asked == "auto", comm.size)
    notices += [*spared, *reasons]
    memory = plan.memory.with_interpreter(
        loaded.deck.method, figures=bool(job.figures), cuda=device.is_cuda, compiled=compiled
    )
    plan = replace(plan, memory=memory)
    device.require(plan.memory.of_processes(comm.local_size))
    loaded.raise_for(plan.absurd())
    return plan, device, [*caches.NOTICES, *notices]


# ------------------------------------------------------------------------------------ before the work


def _refuse_what_cannot_be_written(job: Job[D, P, R]) -> None:
    """Refuse, before the work, what would fail or destroy something after it."""
    if not job.replaces:
        job.files.require_new(job.figures, job.extra)
    refuse_unusable(job.written())
    refuse_inputs(job.written(), paths_in(job.loaded.deck))
    if job.figures:
        ready()


def _nothing_to_add(job: Job[D, P, R]) -> bool:
    """Return True if the checkpoint is that of a complete run of the same problem."""
    meta = checkpoint.load_meta(job.files.checkpoint)
    complete = bool(meta.get("complete", False))
    return complete and not changed_keys(meta.get("physics", {}), json_ready(job.loaded.physics()))


def _already_complete(job: Job[D, P, R]) -> Outcome:
    """Return the outcome of a run that is complete, provided that it was this deck's.

    A run that was killed after it wrote its results gets the figures and the summary that it still lacks.
    """
    files = job.files
    with open_results(files.results) as results:
        changed, content = differing(job.loaded, results), summary_of(results, files.summary)
    if changed:
        raise DeckError(
            f"{files.results} is the complete result of another problem; it differs in {', '.join(changed)}",
            hint="--force replaces it, -o FILE writes elsewhere",
        )
    if content is not None:
        return Outcome(content, files.results, already=True)
    missing = [
        name
        for name in job.figures
        if not all(path.exists() for path in figure_paths(files.stem, name, files.formats))
    ]
    if job.one_figure and len(missing) < len(job.figures):
        missing = []
    with Signals(), Monitor(quiet=job.options.verbosity < 0) as monitor:  # figures are written whole
        return publish(job, missing, monitor)


@dataclass(frozen=True)
class _Restored:
    """State and meta data of a checkpoint, with notices about them."""

    state: dict[str, Any] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    notices: Sequence[str] = ()


def _restore(job: Job[D, P, R], device: Device) -> _Restored:
    """Read the checkpoint, if the run is to be continued from one."""
    loaded, file = job.loaded, job.files.checkpoint
    if not job.resuming:
        missing = f"no checkpoint {file}; starting from the beginning"
        return _Restored(notices=[missing] if job.options.resume else [])
    state, meta = checkpoint.load(file)
    notices = checkpoint.compatible(
        meta,
        loaded,
        device.label,
        seed=loaded.deck.run.seed,
        precision=loaded.deck.run.precision,
        version=__version__,
        free=job.method.extendable,
        allow_changes=job.options.allow_changes,
    )
    return _Restored(
        state, meta, [f"continuing from {file}, written after {meta['elapsed']:.1f} s", *notices]
    )


def _monitor(
    job: Job[D, P, R],
    device: Device,
    restored: _Restored,
    signals: Signals,
    start: float,
    physics: Mapping[str, Any],
) -> Monitor:
    """Make the monitor of a run: seed, identity for checkpoints and results, and how progress is shown."""
    loaded = job.loaded
    if loaded.deck.run.seed is None:
        loaded.update_run(seed=restored.meta["seed"] if restored.meta else world().bcast(draw_seed()))
    settings = loaded.deck.run
    meta = {
        "method": loaded.deck.method,
        "physics": physics,
        "seed": settings.seed,
        "precision": settings.precision,
        "device": device.label,
        "qsim_version": __version__,
    }
    return Monitor(
        checkpoint=job.files.checkpoint,
        meta=meta,
        interval=settings.checkpoint,
        restored=restored.state,
        signals=signals,
        quiet=job.options.verbosity < 0 or world().rank > 0,
        clock=RunClock(
            settings.walltime,
            spent=time.monotonic() - start,
            earlier=restored.meta.get("elapsed", 0.0),
        ),
    )


def _greet(monitor: Monitor, loaded: LoadedDeck[Any], device: Device, notices: Sequence[str]) -> None:
    settings = loaded.deck.run
    title = f": {loaded.deck.title}" if loaded.deck.title else ""
    monitor.note(f"{loaded.deck.method} {loaded.name}{title}")
    monitor.note(f"{device}, {settings.precision} precision, seed {settings.seed}")
    for notice in notices:
        monitor.note(notice)
    for text in loaded.notes:
        monitor.note(text.replace(": note: ", ": ", 1))
    _warn(monitor, loaded.warnings)


def _warn(monitor: Monitor, warnings: Sequence[str]) -> None:
    for warning in warnings:
        monitor.warn(warning.replace(": warning: ", ": ", 1))  # the monitor says "warning" itself


def _measured(job: Job[D, P, R], plan: Plan, device: Device) -> dict[str, Any]:
    """Return how long a run takes, from its first steps; nothing is written."""
    loaded, method = job.loaded, job.method
    if loaded.deck.run.seed is None:
        loaded.update_run(seed=draw_seed())
    monitor = Monitor(quiet=True)
    monitor.stopwatch = Stopwatch(SECONDS)

    def run(monitor: Monitor) -> None:
        with monitor, out_of_memory(device, plan.memory), device.use(), small_matrices(device.threads):
            problem = method.build.build(loaded, device)
            method.run.run(problem, monitor)
            device.synchronize()

    found = measured(run, monitor)
    ready: dict[str, Any] = json_ready({**vars(found), "text": found.text()})
    return ready


def _planned(loaded: LoadedDeck[Any], plan: Plan, device: Device, notices: Sequence[str]) -> dict[str, Any]:
    """Return the content of ``--dry-run``."""
    compiling = 0.0 if device.is_cuda else seconds_to_compile(loaded.deck.method)
    ready: dict[str, Any] = json_ready(
        {
            "method": loaded.deck.method,
            "title": loaded.deck.title,
            "status": "planned",
            "device": device.label,
            "device_name": device.name,
            "precision": loaded.deck.run.precision,
            "sizes": plan.sizes,
            "steps": plan.steps,
            "compilation": f"about {rough_time(compiling)}, once on this machine" if compiling else "",
            "memory": {
                "host": plan.memory.host,
                "device": plan.memory.device,
                "job": plan.memory.of_job(cuda=device.is_cuda),
                "parts": plan.memory.parts,
                "free": device.free_memory(),
            },
            "warnings": loaded.warnings,
            "notices": [*loaded.notes, *notices],
            "deck": loaded.shown(),
            "version": __version__,
        }
    )
    return ready

"""The life of a run, the same for every method: deck -> build -> run -> results file -> figures.

`execute` is the whole program; the stages that it calls are described in `qsim.core.run.stages`.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from qsim.core.deck.blocks import Deck
from qsim.core.deck.load import DeckSource, LoadedDeck, changed_keys, load_deck
from qsim.core.device import caches
from qsim.core.device.blas import small_matrices
from qsim.core.device.device import Device, out_of_memory, requested_device, requested_threads, select
from qsim.core.device.footprint import kernels_are_compiled, seconds_to_compile
from qsim.core.device.parallel import agreed, first, world
from qsim.core.device.rng import draw_seed
from qsim.core.errors import DeckError, FileError
from qsim.core.results.jsonable import json_ready
from qsim.core.results.plotting import ready
from qsim.core.results.results import open_results
from qsim.core.results.summary import read_summary, summary, write_summary
from qsim.core.results.writing import Content, write_results
from qsim.core.run import checkpoint, choice
from qsim.core.run.drawing import draw_figure
from qsim.core.run.files import (
    RunFiles,
    figure_paths,
    paths_in,
    refuse_inputs,
    refuse_unusable,
    remove,
    require_folder,
    same_file,
)
from qsim.core.run.lock import OutputLock
from qsim.core.run.progress import Monitor, RunClock
from qsim.core.run.provenance import collect
from qsim.core.run.ranks import about_ranks, require_one_deck, require_share
from qsim.core.run.signals import Signals, leaving_later, on_early_exit
from qsim.core.run.stages import Method, OutputStage, Plan, unknown_figures
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.device.parallel import Comm

__all__ = ["Options", "Outcome", "draw_figure", "execute", "paths_in"]

CHOICES = ("overview", "all", "none")
"""Words for sets of figures."""

D = TypeVar("D", bound=Deck)
P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Options:
    """Options of a run, as on the command line.

    Parameters
    ----------
    device
        ``auto``, ``cpu``, ``cuda`` or ``cuda:N``; overrules ``QSIM_DEVICE`` and the deck.
    threads
        CPU threads; overrules ``QSIM_THREADS`` and the deck.
    overrides
        ``KEY=VALUE`` texts that replace keys of the deck.
    output
        Results file, or a folder to put it in.
    force
        Replace existing results; start anew although there is a checkpoint.
    resume
        Continue from the checkpoint, if there is one.
    allow_changes
        Continue from a checkpoint although the problem has changed.
    dry_run
        Check and plan only.
    figures
        ``"overview"``, ``"all"``, ``"none"`` or names separated by commas, in place of the deck's ``output.figures``; True for
        those of the deck, False for none.
    formats
        Formats of the figures: ``png``, ``pdf``, ``svg``.
    verbosity
        -1 for silence, 0 for progress and notices.
    command
        What is recorded as the command of the run.
    """

    device: str | None = None
    threads: int | None = None
    overrides: Sequence[str] = ()
    output: str | Path | None = None
    force: bool = False
    resume: bool = False
    allow_changes: bool = False
    dry_run: bool = False
    figures: bool | str = True
    formats: Sequence[str] = ("png",)
    verbosity: int = 0
    command: str = ""


@dataclass(frozen=True)
class Outcome:
    """Files and summary of a run, returned by `execute`.

    Attributes
    ----------
    summary
        The content of ``<stem>.summary.json``; of a dry run, the plan and the resolved deck.
    results
        The results file; after a dry run, where it would be.
    already
        True if the run had been complete before, so that nothing was done.
    """

    summary: dict[str, Any]
    results: Path
    already: bool = False


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
    job = agreed(comm, lambda: _job(Method[Deck, object, object](method), deck, options or Options()))
    agreed(comm, lambda: require_one_deck(job.loaded, (job.options.resume, job.options.force), comm))
    if job.options.dry_run:
        plan, device, notices = agreed(comm, lambda: _plan(job, comm))
        notices += about_ranks(device, plan, comm)
        return Outcome(_planned(job.loaded, plan, device, notices), job.files.results)
    with ExitStack() as stack:
        lock = first(comm, lambda: _locked(job, stack))
        # only now, since a run that held the lock before may have left a checkpoint
        resuming = comm.bcast(job.options.resume and job.files.checkpoint.exists())
        job = replace(job, resuming=resuming)
        if first(comm, lambda: _is_complete(job)):
            return first(comm, lambda: _already_complete(job))
        first(comm, lambda: _refuse_what_cannot_be_written(job))
        with job.loaded.placing():
            return _work(job, comm, start, lock)


def _locked(job: _Job[D, P, R], stack: ExitStack) -> list[str]:
    """Keep other runs away from the output until the end of the run; return notices about that."""
    require_folder(job.files.results.parent)
    lock = OutputLock(job.files.stem)
    with leaving_later():
        stack.enter_context(lock)
        on_early_exit(lock.release)
    return lock.notices


def _work(job: _Job[D, P, R], comm: Comm, start: float, about_files: Sequence[str]) -> Outcome:
    """Carry out a run whose files may be written; `about_files` are notices about them."""
    method, loaded, files = job.method, job.loaded, job.files
    plan, device, notices = agreed(comm, lambda: _plan(job, comm))
    notices += about_ranks(device, plan, comm)
    restored = first(comm, lambda: _restore(job, device))
    with Signals() as signals, _monitor(job, device, restored, signals, start) as monitor:
        monitor.comm = comm
        if (
            job.options.force and comm.rank == 0
        ):  # else a later --resume would continue the run that this one replaces
            files.checkpoint.unlink(missing_ok=True)
        _greet(monitor, loaded, device, [*about_files, *notices, *restored.notices])
        if not job.replaces and (strangers := job.earlier()):
            monitor.warn(f"of an earlier run, not of these results: {_listed(strangers)}")
        with out_of_memory(device, plan.memory), device.use(), small_matrices(device.threads):
            if not kernels_are_compiled(loaded.deck.method):
                monitor.note(
                    "compiling kernels, once for this machine; steps and their times are told after it"
                )
            with monitor.stage("build"):
                problem = method.build.build(loaded, device)
            compute = method.run.run  # imported here, so that the monitor sees the compiler that it loads
            with monitor.stage("run"), monitor.continuing():
                result = compute(problem, monitor)
                device.synchronize()
            monitor.end()
            monitor.warnings[:] = dict.fromkeys(
                text for texts in comm.allgather(monitor.warnings) for text in texts
            )
            with monitor.stage("write"):
                first(comm, lambda: _finish(job, device, result, monitor))
        return first(comm, lambda: _publish(job, job.figures, monitor))


def _finish(job: _Job[D, P, R], device: Device, result: R, monitor: Monitor) -> None:
    _write(job, device, result, monitor)
    _keep_state(job, result, monitor)


def _is_complete(job: _Job[D, P, R]) -> bool:
    """Return True if there is nothing left to do for a run that is to be resumed."""
    return job.options.resume and job.files.results.exists() and (not job.resuming or _nothing_to_add(job))


def _plan(job: _Job[D, P, R], comm: Comm) -> tuple[Plan, Device, list[str]]:
    """Return the plan of a run, with the memory of the interpreter, and where it computes.

    Raises
    ------
    DeckError, DeviceError
        If the method refuses the deck, the device cannot be used, the problem does not fit, or takes years.
    """
    loaded, settings = job.loaded, job.loaded.deck.run
    compiled = kernels_are_compiled(loaded.deck.method)  # before the plan, which may compile some itself
    with small_matrices(1):  # a plan takes fractions of a second: what it computes is small
        plan = job.method.build.plan(loaded)
    loaded.raise_for(plan.findings)
    require_share(loaded, plan, comm)
    device, notices = select(
        job.options.device,
        settings.device,
        threads=requested_threads(job.options.threads, settings.threads),
        local_rank=comm.local_rank,
    )
    asked, _ = requested_device(job.options.device, settings.device)
    device, reasons = choice.chosen(plan, device, asked == "auto", comm.size)
    notices += reasons
    memory = plan.memory.with_interpreter(
        loaded.deck.method, figures=bool(job.figures), cuda=device.is_cuda, compiled=compiled
    )
    plan = replace(plan, memory=memory)
    device.require(plan.memory.of_processes(comm.local_size))
    loaded.raise_for(plan.work.findings(least_time(plan, loaded, device)))
    return plan, device, [*caches.NOTICES, *notices]


def least_time(plan: Plan, loaded: LoadedDeck[Any], device: Device) -> float:
    """Return the seconds that a run takes at least."""
    return plan.work.least(device, loaded.deck.run.precision, world().size)


@dataclass(frozen=True)
class _Job(Generic[D, P, R]):
    """One run: method, deck, options, files, and the figures that the deck requests."""

    method: Method[D, P, R]
    loaded: LoadedDeck[D]
    options: Options
    files: RunFiles
    figures: Sequence[str]
    extra: Sequence[Path] = ()
    """Files that the method may write besides results, summary and figures."""
    resuming: bool = False
    """True if there is a checkpoint and it is to be continued."""

    @property
    def one_figure(self) -> bool:
        """True if only an overview is drawn: the first figure that has something to show."""
        return self.loaded.deck.output.figures == "overview"

    @property
    def replaces(self) -> bool:
        """True if existing results may be replaced: a run with a checkpoint was allowed to when it began."""
        return self.options.force or self.resuming

    def written(self) -> list[Path]:
        """Return everything that the run may write."""
        return [*self.files.all_paths(self.figures, self.extra), self.files.checkpoint]

    def earlier(self) -> list[Path]:
        """Return figures and the like that an earlier run left, but for what this one reads."""
        inputs = list(paths_in(self.loaded.deck))
        return [
            path
            for path in self.files.of_earlier_run(list(self.method.output.FIGURES), self.extra)
            if not any(same_file(path, source) for source in inputs)
        ]


def _job(method: Method[D, P, R], deck: DeckSource, options: Options) -> _Job[D, P, R]:
    overrides = [*options.overrides]
    if isinstance(options.figures, str):
        asked = options.figures if options.figures in CHOICES else f"[{options.figures}]"
        overrides.append(f"output.figures={asked}")
    loaded = load_deck(deck, method.deck.DECK, overrides)
    figures = _figure_names(loaded, method.output) if options.figures else []
    files = RunFiles.of(loaded, Path(options.output) if options.output else None, options.formats)
    return _Job(method, loaded, options, files, figures, method.extra_paths(loaded.deck, files.stem))


# ------------------------------------------------------------------------------------ before the work


def _figure_names(loaded: LoadedDeck[D], output: OutputStage[R]) -> Sequence[str]:
    loaded.raise_for(unknown_figures(loaded.deck, output))
    asked = loaded.deck.output.figures
    if isinstance(asked, str):  # of an overview, all that could serve as one
        return [] if asked == "none" else list(output.FIGURES)
    return list(dict.fromkeys(asked))


def _refuse_what_cannot_be_written(job: _Job[D, P, R]) -> None:
    """Refuse, before the work, what would fail or destroy something after it."""
    if not job.replaces:
        job.files.require_new(job.figures, job.extra)
    refuse_unusable(job.written())
    refuse_inputs(job.written(), paths_in(job.loaded.deck))
    if job.figures:
        ready()


def _listed(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
    return ", ".join(str(path) for path in paths[:8]) + more


def _nothing_to_add(job: _Job[D, P, R]) -> bool:
    """Return True if the checkpoint is that of a complete run of the same problem."""
    meta = checkpoint.load_meta(job.files.checkpoint)
    complete = bool(meta.get("complete", False))
    return complete and not changed_keys(meta.get("physics", {}), json_ready(job.loaded.physics()))


def _already_complete(job: _Job[D, P, R]) -> Outcome:
    """Return the outcome of a run that is complete, provided that it was this deck's.

    A run that was killed after it wrote its results gets the figures and the summary that it still lacks.
    """
    files = job.files
    with open_results(files.results) as results:
        before = results.provenance.get("physics", {})
        changed = changed_keys(before, json_ready(job.loaded.physics()))
    if changed:
        raise DeckError(
            f"{files.results} is the complete result of another problem; it differs in {', '.join(changed)}",
            hint="--force replaces it, -o FILE writes elsewhere",
        )
    if (content := _summary(files.summary)) is not None:
        return Outcome(content, files.results, already=True)
    missing = [
        name
        for name in job.figures
        if not all(path.exists() for path in figure_paths(files.stem, name, files.formats))
    ]
    if job.one_figure and len(missing) < len(job.figures):
        missing = []
    with Signals(), Monitor(quiet=job.options.verbosity < 0) as monitor:  # figures are written whole
        return _publish(job, missing, monitor)


def _summary(path: Path) -> dict[str, Any] | None:
    """Return a summary that was written before; None if there is none, or none that can be shown."""
    try:
        return read_summary(path)
    except FileError:
        return None


@dataclass(frozen=True)
class _Restored:
    """State and meta data of a checkpoint, with notices about them."""

    state: dict[str, Any] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    notices: Sequence[str] = ()


def _restore(job: _Job[D, P, R], device: Device) -> _Restored:
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
        precision=loaded.deck.run.precision,
        version=__version__,
        free=job.method.extendable,
        allow_changes=job.options.allow_changes,
    )
    seed = loaded.deck.run.seed
    if seed is not None and meta["seed"] != seed:
        notices.append(f"seed was {meta['seed']} when the checkpoint was written, now it is {seed}")
    return _Restored(
        state, meta, [f"continuing from {file}, written after {meta['elapsed']:.1f} s", *notices]
    )


def _monitor(
    job: _Job[D, P, R], device: Device, restored: _Restored, signals: Signals, start: float
) -> Monitor:
    """Make the monitor of a run: seed, identity for checkpoints, and how progress is shown."""
    loaded = job.loaded
    if loaded.deck.run.seed is None:
        loaded.update_run(seed=restored.meta["seed"] if restored.meta else world().bcast(draw_seed()))
    settings = loaded.deck.run
    meta = {
        "method": loaded.deck.method,
        "physics": loaded.physics(),
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
    for warning in loaded.warnings:
        monitor.warn(warning.replace(": warning: ", ": ", 1))  # the monitor says "warning" itself


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
            "time": plan.work.estimate(
                least_time(plan, loaded, device), cuda=device.is_cuda, compiling=compiling
            ),
            "seconds": max(least_time(plan, loaded, device), plan.work.core),
            "memory": {
                "host": plan.memory.host,
                "device": plan.memory.device,
                "job": plan.memory.of_job(cuda=device.is_cuda),
                "parts": plan.memory.parts,
                "free": device.free_memory(),
            },
            "warnings": loaded.warnings,
            "notices": notices,
            "deck": loaded.shown(),
            "version": __version__,
        }
    )
    return ready


# ------------------------------------------------------------------------------------- after the work


def _write(job: _Job[D, P, R], device: Device, result: R, monitor: Monitor) -> None:
    """Write the results file; what an earlier run of this name left beside it goes then."""
    loaded, method = job.loaded, job.method
    earlier = job.earlier() if job.replaces else []
    provenance = collect(
        loaded,
        device,
        references=method.deck.references(loaded.deck),
        command=job.options.command,
        timing=monitor.timing,
        elapsed=monitor.elapsed,
        warnings=monitor.warnings,
    )
    arrays = {name: device.to_host(array) for name, array in method.output.arrays(result).items()}
    content = Content(
        method=loaded.deck.method,
        title=loaded.deck.title,
        status="complete",
        tables=method.tables(result),
        arrays=arrays,
        scalars=method.output.scalars(result),
        provenance=provenance,
        log=monitor.log,
    )
    try:
        write_results(job.files.results, content, overwrite=job.replaces)
    except FileError as error:
        raise _rescued(error, job, content) from error
    if job.replaces:  # a summary and figures of the results that were replaced
        job.files.summary.unlink(missing_ok=True)
        if gone := [path for path in remove(earlier) if path not in job.written()]:
            monitor.note(f"removed files of the earlier run: {_listed(gone)}")


def _rescued(error: FileError, job: _Job[D, P, R], content: Content) -> FileError:
    """Write the results where there may be space, since they cost work; return the error that says where they are."""
    text, hint = str(error), error.hint or ""
    if job.files.checkpoint.exists():
        hint += f"; --resume then continues from {job.files.checkpoint}"
    try:
        folder = Path(tempfile.mkdtemp(prefix="qsim-rescued-"))
        try:
            path = write_results(folder / job.files.results.name, content)
        except FileError:
            folder.rmdir()
        else:
            text += f"; the complete results are in {path} instead"
            hint = f"move them: mv {shlex.quote(str(path))} {shlex.quote(str(job.files.results))}"
    except OSError:
        pass  # no place at all
    return FileError(text, hint=hint)


def _keep_state(job: _Job[D, P, R], result: R, monitor: Monitor) -> None:
    """Remove the checkpoint, which has served its purpose, or replace it by the state that more can be added to."""
    state = job.method.final_state(result)
    if state is None:
        job.files.checkpoint.unlink(missing_ok=True)
        return
    meta = {**monitor.meta, "elapsed": monitor.elapsed, "complete": True}
    try:
        checkpoint.save(job.files.checkpoint, state, meta)
    except FileError as error:  # the results are written
        monitor.warn(f"{error}; this run cannot be continued")


def _publish(job: _Job[D, P, R], names: Sequence[str], monitor: Monitor) -> Outcome:
    """Draw figures of the results file and write its summary.

    A figure that fails does not cost the others or the summary: its error is raised after those are written.
    """
    method, files = job.method, job.files
    # of a complete run, the checkpoint is what --resume adds to
    written = [files.results, *([files.checkpoint] if files.checkpoint.exists() else [])]
    failures: list[Exception] = []
    with open_results(files.results) as results:
        written += method.extra_files(results, files.stem)
        with monitor.stage("figures"):
            for name in names:
                try:
                    drawn = draw_figure(method.output, results, name, files.stem, files.formats)
                    written += drawn
                    if drawn and job.one_figure:
                        break
                except Exception as error:
                    error.add_note(
                        f"while drawing the figure '{name}'; the results in {files.results} are complete"
                    )
                    failures.append(error)
        recorded = results.provenance
        content = summary(
            results,
            device=recorded["device"]["label"],
            precision=recorded["precision"],
            seed=recorded["seed"],
            timing={**recorded["timing"], **monitor.timing},
            files=[*written, files.summary],
            warnings=monitor.warnings or recorded["warnings"],
            version=recorded["qsim_version"],
        )
    write_summary(files.summary, content)
    if failures:
        raise failures[0]
    return Outcome(content, files.results)

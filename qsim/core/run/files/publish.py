"""The end of a run: results on the disk first, then what draws or judges them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import TypeVar

from qsim.core.deck.blocks import Deck
from qsim.core.errors import FileError
from qsim.core.results.results import open_results
from qsim.core.results.summary import summary, write_summary
from qsim.core.results.writing import Content, write_results
from qsim.core.run import checkpoint
from qsim.core.run.files.drawing import draw_figure
from qsim.core.run.files.paths import remove
from qsim.core.run.job import Job, Outcome, listed
from qsim.core.run.provenance import collect
from qsim.core.text import shell_path

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.core.run.progress import Monitor

__all__ = ["keep_state", "publish", "write"]

D = TypeVar("D", bound=Deck)
P = TypeVar("P")
R = TypeVar("R")


def write(job: Job[D, P, R], device: Device, result: R, monitor: Monitor) -> None:
    """Write the results file; what an earlier run of this name left beside it goes then."""
    loaded, method = job.loaded, job.method
    # Listed before anything is written, while the summary of the earlier run still exists;
    # removed only after the new results are on the disk.
    earlier = job.earlier() if job.replaces else []
    arrays = {name: device.to_host(array) for name, array in method.arrays(result, monitor.not_found).items()}
    scalars = method.scalars(result, monitor.not_found)
    provenance = collect(
        loaded,
        device,
        physics=monitor.meta["physics"],
        references=method.deck.references(loaded.deck),
        command=job.options.command,
        timing=monitor.timing,
        elapsed=monitor.elapsed,
        warnings=monitor.warnings,
    )
    content = Content(
        method=loaded.deck.method,
        title=loaded.deck.title,
        status="complete",
        tables=method.tables(result),
        arrays=arrays,
        scalars=scalars,
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
            monitor.note(f"removed files of the earlier run: {listed(gone)}")


def _rescued(error: FileError, job: Job[D, P, R], content: Content) -> FileError:
    """Write the results where there may be space, since they cost work; return the error that says where they are."""
    text, hint = str(error), error.hint or ""
    if job.files.checkpoint.exists():
        hint += f"; --resume then continues from {job.files.checkpoint}"
    try:
        # A folder of its own: no name there can exist, and no other user can read it.
        folder = Path(tempfile.mkdtemp(prefix="qsim-rescued-"))
        try:
            path = write_results(folder / job.files.results.name, content)
        except FileError:
            folder.rmdir()
        else:
            text += f"; the complete results are in {path} instead"
            hint = f"move them: mv {shell_path(path)} {shell_path(job.files.results)}"
    except OSError:
        pass  # no place at all
    return FileError(text, hint=hint)


def keep_state(job: Job[D, P, R], result: R, monitor: Monitor) -> None:
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


def publish(job: Job[D, P, R], names: Sequence[str], monitor: Monitor) -> Outcome:
    """Draw figures of the results file and write its summary.

    A figure or additional file that fails does not cost the others or the summary: its error is raised after those are written.
    """
    method, files = job.method, job.files
    # of a complete run, the checkpoint is what --resume adds to
    written = [files.results, *([files.checkpoint] if files.checkpoint.exists() else [])]
    failures: list[Exception] = []
    # From the file, not from memory: what is drawn is what was stored, and `qsim plot` gives
    # the same later.
    with open_results(files.results) as results:
        try:
            written += method.extra_files(results, files.stem)
        except Exception as error:
            error.add_note(f"while writing files beside {files.results}, which is complete")
            failures.append(error)
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
        # Last, since it lists the files; a complete run is recognised by its summary.
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

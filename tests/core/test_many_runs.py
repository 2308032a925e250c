"""Many decks in one process leave nothing behind: no open files, no threads, no objects, no temporary folders."""

import gc
import logging
import tempfile
import threading
from pathlib import Path

import h5py
import pytest

import qsim

pytest.importorskip("bench", reason="the bench is part of a checkout only", exc_type=ModuleNotFoundError)
from bench.starts import DECKS, READ

INPUTS = Path(__file__).resolve().parents[2] / "inputs"
# runs that are counted, after those that fill caches
RUNS, BEFORE = 6, 3
SMALL = {name: (deck, changes) for name, deck, changes in DECKS if name in READ}


def left_behind():
    """Return the numbers of what a run may leave behind."""
    gc.collect()
    found = {
        "objects": len(gc.get_objects()),
        "threads": threading.active_count(),
        "HDF5": h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_ALL),
    }
    if Path("/proc/self/fd").is_dir():
        found["files"] = len(list(Path("/proc/self/fd").iterdir()))
    return found


@pytest.mark.parametrize("name", SMALL)
def test_runs_leave_nothing_behind(name, tmp_path, monkeypatch, caplog):
    deck, changes = SMALL[name]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # what pytest keeps of the log would count
    caplog.set_level(logging.CRITICAL, "qsim")

    def run():
        options = {"device": "cpu", "output": tmp_path / "one.h5", "force": True}
        with qsim.run(INPUTS / f"{deck}.yaml", overrides=changes, **options) as results:
            assert results.scalars

    for _ in range(BEFORE):
        run()
    before, names = left_behind(), sorted(path.name for path in tmp_path.iterdir())
    for _ in range(RUNS):
        run()
    after = left_behind()
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    # caches of Python and of libraries grow by a few objects now and then, a leak grows with each run
    assert after.pop("objects") - before.pop("objects") < 3 * RUNS
    assert after == before

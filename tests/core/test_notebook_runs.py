"""Runs in a notebook: a bar that is replaced in the output of the cell, an interrupt with a checkpoint and a short answer."""

import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

import qsim
from qsim.core.errors import DeckError, Interrupted, Stopped
from qsim.core.run.progress import Monitor, RunClock


class ZMQInteractiveShell:
    """Stand for the shell of a kernel, whose name tells a notebook."""


@pytest.fixture
def notebook(monkeypatch):
    """Return the pictures that a cell shows, one list for each display."""
    shown = []

    class Handle:
        def __init__(self):
            self.pictures = []
            shown.append(self.pictures)

        def update(self, picture):
            self.pictures.append(picture)

    display = ModuleType("IPython.display")
    display.HTML = str
    display.display = lambda content, display_id: Handle()
    shell = ModuleType("IPython")
    shell.get_ipython = ZMQInteractiveShell
    shell.display = display
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def run(quiet):
    now = SimpleNamespace(value=0.0)
    with Monitor(quiet=quiet, clock=RunClock(now=lambda: now.value)) as monitor:
        monitor.begin(10, "steps", "evolve <b>")
        for done in range(11):
            now.value += 0.5
            monitor.step(done, energy=-1.5)


def test_the_bar_of_a_cell_is_replaced(notebook, capsys):
    run(quiet=False)
    (pictures,) = notebook
    assert len(pictures) >= 10
    assert 'value="0.3000"' in pictures[3]
    assert 'value="1.0000"' in pictures[-1]
    assert "energy -1.5" in pictures[-1]
    assert "evolve &lt;b&gt;" in pictures[-1]  # texts of a deck are no HTML
    assert "evolve" not in capsys.readouterr().err  # no lines beside the bar
    notebook.clear()
    run(quiet=True)
    assert notebook == []


def test_errors_are_shown_without_frames():
    error = DeckError("the grid has no points", hint="give some")
    assert error._render_traceback_() == ["DeckError: the grid has no points", "hint: give some"]
    assert (
        Stopped("run.ckpt.h5")._render_traceback_()[1] == "hint: continue with the same command and --resume"
    )


def test_an_interrupt_before_the_work_is_one_of_qsim(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("qsim.core.run.pipeline.execute", interrupted)
    with pytest.raises(Interrupted, match="before the work began"):
        qsim.run({"method": "trotter", "system": {}})


def test_an_interrupt_of_a_kernel_leaves_a_checkpoint(tmp_path):
    """In a real kernel: two lines instead of a traceback, and a file that the same cell continues from."""
    manager = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    kernel, client = manager.start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        deck = {
            "method": "trotter",
            "system": {"spins": 10, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
            "initial": "neel",
            "evolve": {"t_final": 1e5, "dt": 0.05, "integrator": "ts4", "outputs": 3},
        }
        cell = f"import qsim\nprint('begun', flush=True)\nqsim.run({deck!r}, output='run.h5', progress=True, device='cpu')"
        request = client.execute(cell)
        texts, begun = [], None
        deadline = time.monotonic() + 120.0
        while time.monotonic() < deadline:
            message = client.get_iopub_msg(timeout=120)
            kind, content = message["header"]["msg_type"], message["content"]
            # the bar moves: the run is at work
            if begun is None and kind == "update_display_data" and "steps" in str(content["data"]):
                begun = time.monotonic()
                kernel.interrupt_kernel()
            if kind == "error":
                texts = content["traceback"]
                break
        assert begun is not None
        assert request
        assert len(texts) <= 2, texts
        assert texts[0].startswith("Stopped: "), texts
        assert (tmp_path / "run.ckpt.h5").is_file()
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)

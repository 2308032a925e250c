"""The bench: every case can be imported and is listed; the page on measured speed is that of the records."""

import itertools
import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
pytest.importorskip("bench", reason="the bench is part of a checkout only", exc_type=ModuleNotFoundError)

from bench import decks, parts, ranks, report  # noqa: E402


def test_cases_of_every_method_are_listed():
    command = [sys.executable, "bench/run.py", "--list"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    names = [line.split()[0] for line in found.stdout.splitlines()]
    assert len(names) == len(set(names))
    for method in ("qoc", "trotter", "tridiag", "sturmian", "qmc"):
        assert [name for name in names if name.startswith(f"{method}-")], method


def test_the_page_on_speed_is_that_of_the_records():
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), "python bench/report.py"


def test_the_page_on_speed_shows_what_a_record_holds(tmp_path):
    row = {
        "label": "N=4: a step",
        "seconds": 2e-3,
        "flops": 3e9,
        "bytes": 4e6,
        "floor_s": 1e-3,
        "bound": "flops",
    }
    row |= {"fraction": 0.5, "ratio": 7.25}
    other = {"label": "N=4: PyQMC", "seconds": 4.0}
    goal = {"goal": "fast", "value": 2.0, "relation": "<=", "limit": 1.0, "unit": "s", "met": False}
    entry = {"case": "trotter-step", "summary": "steps", "device": "cpu", "status": "done", "message": ""}
    entry |= {"rows": [row, other], "goals": [goal], "notes": []}
    ceilings = {"copy": 1e10, "fma": 2e10, "dgemm": 3e10, "fma_latency": 1e-9}
    device = {"name": "a processor", "ceilings": ceilings}
    record = {"devices": {"cpu": device}, "created": "2026-01-01", "commit": "abcdefghij", "cases": [entry]}
    (tmp_path / "trotter-cpu.json").write_text(json.dumps(record))
    text = report.page(tmp_path)
    assert "| N=4: a step | 2.00 ms | 3.00 G | 4.00 MB | 1.00 ms (flops) | 50.0 % | ratio 7.25 |" in text
    assert "| *N=4: PyQMC* | 4.00 s |" in text
    assert "**not met** | `trotter-step` | `trotter-cpu` | fast | 2.00 | ≤ 1 s |" in text
    assert "10.0 GB/s | 20.0 Gflop/s | 30.0 Gflop/s" in text


def test_a_record_without_cases_shows_its_rows_and_works(tmp_path):
    record = {
        "device": "a host, 2 cores",
        "command": "python bench/whole.py",
        "unit": "s",
        "note": "Cold first.",
    }
    record["rows"] = [{"deck": "qoc/morse", "threads": 2, "cache": "cold", "wall": 3.25, "compile": 1.5}]
    record["works"] = [{"work": "a copy", "seconds": {"1": 0.5, "2": 0.25}}]
    (tmp_path / "commands.json").write_text(json.dumps(record))
    text = report.page(tmp_path)
    assert "| deck | threads | cache | wall | compile |" in text
    assert "| qoc/morse | 2 | cold | 3.25 | 1.50 |" in text
    assert "| a copy | 0.500 | 0.250 |" in text


def test_each_moment_counts_for_the_innermost_part():
    ticks = iter([(float(k * k), float(k)) for k in range(20)])
    found = parts.Parts(lambda: next(ticks))

    def kernel(depth):
        return 1 if depth == 0 else inner(depth - 1)

    inner = found.counted("kernels", kernel)
    with found.part("build"):  # from 1 on
        with found.part("import"):  # 4 to 9
            pass
        assert inner(3) == 1  # 16 to 25: what it calls of its own kind needs no clock
    total = found.total()  # 36 is the end of the build, 49 now
    assert total["wall"] == {"import": 5, "compile": 0, "build": 21, "kernels": 9, "write": 0, "host": 14}
    assert sum(total["cpu"].values()) == 7


def test_functions_and_operators_of_arrays_count_for_kernels():
    """A library like CuPy: functions, universal functions, types, arrays with operators."""

    class Array(np.ndarray):
        pass

    def like(values):
        return np.asarray(values, float).view(Array)

    library = types.ModuleType("library")
    library.ndarray, library.asarray, library.add, library.float64 = Array, like, np.add, np.float64
    library.linalg = types.SimpleNamespace(inv=np.linalg.inv)
    ticks = itertools.count()
    found = parts.Parts(lambda: (float(next(ticks)), 0.0))
    parts.watch_arrays(found, library)
    assert library.float64 is np.float64
    works = {
        "a function": lambda: library.asarray([1.0, 2.0]),
        "a universal function": lambda: library.add(1.0, 2.0),
        "an operator": lambda: x @ x,
        "one with a number first": lambda: 2.0 * x,
        "in place": lambda: x.__iadd__(1.0),
        "linear algebra": lambda: library.linalg.inv(np.eye(2)),
        "a sum": lambda: x.sum(),
    }
    x = like([1.0, 2.0])
    for name, work in works.items():
        before = found.total()["wall"]["kernels"]
        work()
        assert found.total()["wall"]["kernels"] == before + 1, (
            name
        )  # of the clock's ticks: nested ones cost none
    assert library.add.reduce([1.0, 2.0]) == 3.0
    assert (2.0 * x).tolist() == [4.0, 6.0]


def test_the_parts_of_a_command_are_its_time(tmp_path):
    told = tmp_path / "told.json"
    deck = str(ROOT / "inputs/tridiag/packet.yaml")
    command = [sys.executable, "bench/parts.py", str(told), "tridiag", deck, "-o", str(tmp_path / "run")]
    begun = time.perf_counter()
    found = subprocess.run(
        [*command, "--no-figures", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - begun
    assert found.returncode == 0, found.stderr
    parts_of = json.loads(told.read_text())["wall"]
    assert set(parts_of) == set(parts.PARTS)
    assert all(parts_of[name] > 0.0 for name in ("import", "build", "kernels", "write", "host"))
    assert 0.5 * wall < sum(parts_of.values()) < wall


@pytest.mark.exhaustive
@pytest.mark.mpi
def test_a_case_on_ranks_has_the_model_beside_each_row(tmp_path):
    pytest.importorskip("mpi4py")
    file = tmp_path / "ranks.json"
    command = [
        sys.executable, "bench/run.py", "tridiag-ranks-[we]*", "--ranks", "1,2", "--quick", "--json", str(file)
    ]  # fmt: skip
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    cases = json.loads(file.read_text())["cases"]
    assert [entry["case"] for entry in cases] == ["tridiag-ranks-weak", "tridiag-ranks-exact"]
    for entry in cases:
        assert [row["ranks"] for row in entry["rows"]] == [1, 2]
        alone, two = entry["rows"]
        assert alone["efficiency"] == 1.0
        assert alone["model_seconds"] == alone["seconds"]
        assert two["model_seconds"] > alone["seconds"]  # weak scaling: the same work, and messages besides
        assert two["bytes"] > 0


def test_packages_that_are_found_by_pythonpath_are_found_on_ranks(monkeypatch):
    """Those of a virtual environment beside a module of a cluster, say."""
    given = []
    monkeypatch.setenv("PYTHONPATH", "/packages/of/the/cluster")
    monkeypatch.setattr(ranks.shutil, "which", lambda name: name)
    reply = types.SimpleNamespace(stdout="", stderr="none", returncode=1)
    monkeypatch.setattr(ranks.subprocess, "run", lambda *_, env, **__: given.append(env) or reply)
    assert ranks._launch("tridiag-ranks-weak", 2, "cpu", True) == (None, "none")
    assert given[0]["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/packages/of/the/cluster"]


def test_ranks_that_make_no_sense_are_refused():
    command = [sys.executable, "bench/run.py", "--ranks", "1,many"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 2


@pytest.mark.gpu
def test_clocks_of_kernels_change_no_walker_and_lie_within_the_whole(cuda):
    """Fig. 4 of qmc on a GPU: kernels with clocks are those without; a class is a part of its kernel."""
    from bench.qmc import crystal_shares, problem
    from qsim.qmc.sampling.walkers import Walkers

    made = crystal_shares.of_deck("diamond 2")
    ensembles, clocks = [], {}
    for clocked in (False, True):
        walkers = Walkers(cuda, made, 6, problem.KEY, single=True)
        walkers.place()
        walkers.recompute()
        ensembles.append(walkers)
        _, clocks = crystal_shares.Kernels(walkers, clocked).generations(2, counting=clocked)
    plain, counted = ([walkers.device.to_host(array) for array in walkers.state] for walkers in ensembles)
    for a, b in zip(plain, counted, strict=True):
        # instructions in another order may contract other products; all else is the same
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(b).max()))
    for name in ("walk", "weigh"):
        parts = [clocks[name][kind] for kind in ("splines", "jastrow", "ratios", "updates")]
        assert 0 < sum(parts) <= clocks[name]["whole"]
    assert 0 < clocks["weigh"]["nonlocal"] < clocks["weigh"]["whole"]
    assert clocks["walk"]["nonlocal"] == clocks["weigh"]["updates"] == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["splines", "updates"])
def test_parts_of_a_move_alone_make_what_numpy_makes(cuda, name):
    """Splines and updates of inverses of qmc beside the ceiling: the case compares before it measures."""
    from bench.harness import Bench
    from bench.qmc import crystal_parts
    from qsim.core.device.device import cpu

    bench = Bench(cuda, cpu(1), quick=True)
    getattr(crystal_parts, name)(bench)
    assert bench.rows
    assert all(row["fraction"] > 0 for row in bench.rows)


def test_lanes_of_a_table_share_no_core_and_no_gpu():
    """Beside a wide one where there are cores enough; each stage has room for every kind of command."""
    for count, gpus in ((1, 0), (2, 0), (4, 1), (16, 1), (32, 2), (64, 4)):
        wide = min(decks.WIDE, count)
        stages = decks.warm_lanes(list(range(count)), gpus, wide)
        for lanes in (*stages, decks.cold_lanes(list(range(count)), 0)):
            cores = [core for lane in lanes for core in lane.cores]
            assert len(cores) == len(set(cores))
            assert set(cores) <= set(range(count))
            used = [lane.gpu for lane in lanes if lane.gpu is not None]
            assert len(used) == len(set(used))
        everywhere = [lane for lanes in stages for lane in lanes]
        for column in decks.columns(count, gpus).values():
            assert any(decks.fits(column, lane) for lane in everywhere), column


def test_decks_that_contradict_a_goal_are_named():
    """One of each kind, and one that varies by less than a start does."""
    wrong = {"deck": "a", "auto": "GPU", "seconds": {"16 cores": 2.0, "GPU": 3.0}}
    slower = {"deck": "b", "auto": "16 cores", "seconds": {"1 core": 2.0, "16 cores": 2.5, "GPU": 4.0}}
    cold = {"deck": "c", "auto": "16 cores", "seconds": {"CPU, cold": 11.0}, "compile": {"CPU, cold": 9.0}}
    right = {"deck": "d", "auto": "GPU", "seconds": {"1 core": 2.0, "16 cores": 2.2, "GPU": 2.3}}
    found = decks.verdicts([wrong, slower, cold, right], "16 cores")
    assert list(found.values()) == [["a"], ["b"], ["c"]]


def test_the_page_on_speed_shows_a_table_of_all_decks(tmp_path):
    row = {"deck": "qoc/morse", "auto": "GPU", "size": 3e6, "of": "products", "GPU from": 2e8}
    row |= {"seconds": {"CPU, cold": 9.0, "1 core": 40.0, "16 cores": 2.0, "GPU": 3.0}}
    row |= {"compile": {"CPU, cold": 6.5}, "cut": {"1 core": True}, "run": {"1 core": 3.0, "16 cores": 0.5}}
    record = {
        "device": "a host",
        "command": "python bench/decks.py",
        "wide": "16 cores",
        "created": "2026-01-01",
    }
    record |= {"commit": "abcdefghij", "decks": [row], "verdicts": {"a goal": ["qoc/morse"], "another": []}}
    (tmp_path / "decks.json").write_text(json.dumps(record))
    scaling = record | {"scaling": True, "columns": ["CPU, cold", "1 core", "16 cores"]}
    (tmp_path / "scaling.json").write_text(json.dumps(scaling))
    text = report.page(tmp_path)
    line = (
        "| `qoc/morse` | 9.0 (6.5) | > 40 | 2.0 | 3.0 | GPU, 1.50 | 3.00·10^6 products (GPU from 2.00·10^8) |"
    )
    assert line in text
    assert "- a goal: not `qoc/morse`\n- another: all decks" in text
    assert "| `qoc/morse` | 3.00 | 0.50 (6.0) |" in text

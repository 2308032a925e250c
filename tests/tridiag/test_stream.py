"""Systems solved block by block: against LAPACK, in bounded memory, from and into every kind of array."""

import threading

import h5py
import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu, cuda_status, select
from qsim.core.errors import DeckError, FileError, MemoryLimitError, NumericsError
from qsim.core.results.tables import match_tables, resolve_dimensions
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage
from qsim.tridiag.scaling.run import block_numbers
from qsim.tridiag.solver import systems
from qsim.tridiag.solver.ladder import SingularMatrixError
from qsim.tridiag.solver.pieces import gtsv, stubborn
from qsim.tridiag.solver.robustness.defect import Defect
from qsim.tridiag.solver.stream import solve_streamed

output = Method("tridiag")

RNG = np.random.default_rng(11)
TOLERANCE = {"complex": 1e-13, "real": 1e-13, "complex64": 3e-6, "float32": 3e-6}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def device_of(name):
    if name == "cuda" and not cuda_status().count:
        pytest.skip("no CUDA device")
    return cpu(2) if name == "cpu" else select("cuda")[0]


def lapack(system):
    x, row = gtsv(system.a, system.b, system.c, system.d.reshape(system.n, -1))
    assert row is None
    return x.reshape(system.d.shape)


def close(x, exact, tolerance=1e-13):
    assert np.abs(x - exact).max() <= tolerance * np.abs(exact).max()


class Recorder:
    """A source that notes what is read of it."""

    def __init__(self, source):
        self.source, self.reads = source, []
        self.n, self.columns, self.dtype, self.name = source.n, source.columns, source.dtype, source.name

    def read(self, lo, hi):
        self.reads.append((lo, hi))
        return self.source.read(lo, hi)


def system_of(a, b, c, d):
    n = len(a)
    b, c = (np.broadcast_to(np.asarray(v), (n,)).copy() for v in (b, c))
    b[0] = c[-1] = 0
    kind = np.result_type(a, b, c, d, np.float64)
    return systems.System(*(np.asarray(v, kind) for v in (a, b, c, d)))


# --- against LAPACK -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["complex", "real", "complex64", "float32"])
@pytest.mark.parametrize("columns", [1, 3])
def test_generated_systems(device, dtype, columns):
    where = device_of(device)
    source = systems.RandomSource(20_011, seed=3, dtype=dtype, columns=columns)
    width = source.dtype.itemsize * (14 if columns == 1 else 30)
    found = solve_streamed(source, budget=3000 * width, device=where)
    assert found.blocks >= 5
    assert source.n % found.block_rows  # the last block is shorter
    close(found.x, lapack(systems.materialise(source)), TOLERANCE[dtype])
    assert found.backward_error < (1e-15 if source.dtype.itemsize > 8 or dtype == "real" else 1e-6)
    assert found.x.dtype == source.dtype


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 2, 3, 63, 64, 65, 129, 1000])
def test_small_systems_and_odd_ends(device, n):
    where = device_of(device)
    system = systems.random(n, seed=n)
    for rows in (64, 65, 127, 1000):
        found = solve_streamed(
            system.source(), budget=rows * 16 * (18 if where.is_cuda else 11), device=where
        )
        close(found.x, lapack(system))
        assert found.blocks == -(-n // min(rows, n))


def test_blocks_of_every_size_give_the_same_solution():
    system = systems.crank_nicolson(700, seed=2)
    exact = lapack(system)
    for rows in range(64, 200, 7):
        for piece in (1, 2, 3, 50):
            found = solve_streamed(system.source(), budget=rows * 16 * 11, device=cpu(1), piece=piece)
            close(found.x, exact)


def test_a_batch_is_one_long_system():
    arrays = [RNG.standard_normal((7, 150)) for _ in range(4)]
    arrays[0] += np.sign(arrays[0]) * 4
    found = solve_streamed(systems.System(*arrays).source(), budget=200 * 8 * 11)
    for k, x in enumerate(found.x.reshape(7, 150)):
        close(x, lapack(system_of(*(array[k] for array in arrays))))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("tolerance", [None, 1e-30])
def test_row_wise_backward_error(device, columns, tolerance):
    """Oettli and Prager: every row counts, also those between two blocks, and small unknowns beside large ones."""
    source = systems.materialise(systems.RandomSource(3000, seed=8, dominance=0.7, columns=columns))
    scale = 10.0 ** RNG.uniform(-2, 2, source.n)
    a, b, c = source.a * scale, source.b * np.roll(scale, 1), source.c * np.roll(scale, -1)
    right = source.d.reshape(source.n, columns)
    system = systems.System(a, b, c, source.d)
    found = solve_streamed(
        system.source(), budget=200 * 16 * 30, device=device_of(device), tolerance=tolerance
    )
    assert found.blocks > 5
    assert (found.refinements > 0) == (tolerance is not None)
    x = np.pad(found.x.reshape(source.n, columns), ((1, 1), (0, 0))).astype(np.clongdouble)
    below, here, above = x[:-2], x[1:-1], x[2:]
    size = lambda z: np.abs(z.real) + np.abs(z.imag)  # noqa: E731
    r = right - a[:, None] * here - b[:, None] * below - c[:, None] * above
    whole = size(a)[:, None] * size(here) + size(b)[:, None] * size(below) + size(c)[:, None] * size(above)
    exact = float((size(r) / (whole + size(right))).max())
    assert abs(found.rowwise_error - exact) < 8 * np.finfo(float).eps
    assert abs(Defect(system.source(), found.x).rowwise(777) - exact) < 8 * np.finfo(float).eps


@pytest.mark.parametrize("row", [0, 199, 200, 1234, 2999])
def test_row_wise_backward_error_of_a_wrong_row(row):
    system = systems.materialise(systems.RandomSource(3000, seed=8, columns=1))
    x = lapack(system)
    assert Defect(system.source(), x).rowwise(200) < 1e-14
    wrong = x.copy()
    wrong[row] *= 1 + 1e-6
    assert 1e-7 < Defect(system.source(), wrong).rowwise(200) < 1e-6


@pytest.mark.parametrize("device", DEVICES)
def test_check_sums_and_profile(device):
    system = systems.random(5000, seed=5)
    found = solve_streamed(system.source(), budget=700 * 16 * 18, device=device_of(device))
    x = lapack(system)
    wanted = {
        "sum": x.sum(),
        "sum_abs2": np.sum(np.abs(x) ** 2),
        "wsum": np.sum(x * np.cos(0.1 * np.arange(5000))),
        "first": x[0],
        "mid": x[2500],
        "last": x[-1],
        "max_abs": np.abs(x).max(),
    }
    assert set(found.checks) == set(wanted)
    for name, value in wanted.items():
        assert found.checks[name] == pytest.approx(value, rel=1e-12), name
    rows, sample, residual = found.profile
    close(sample, x[rows])
    assert rows[-1] == 4999
    assert residual.max() == pytest.approx(found.residual)
    r = system.d - system.a * found.x
    r[1:] -= system.b[1:] * found.x[:-1]
    r[:-1] -= system.c[:-1] * found.x[1:]
    size = np.abs(r.real) + np.abs(r.imag)
    assert found.residual == pytest.approx(size.max(), rel=0.5)  # of the order of rounding
    norm = max(
        np.sum([np.abs(v.real) + np.abs(v.imag) for v in row])
        for row in zip(system.a, system.b, system.c, strict=True)
    )
    scale = norm * np.abs(x.real).max()
    assert found.backward_error < found.residual / (0.5 * scale)


def test_check_sums_do_not_need_the_solution():
    source = systems.RandomSource(3000, seed=1)
    kept, dropped = (solve_streamed(source, budget=200_000, keep=keep) for keep in (True, False))
    assert dropped.x is None
    assert dropped.checks == kept.checks


# --- memory ---------------------------------------------------------------------------------------


def test_the_budget_bounds_what_is_read():
    recorder = Recorder(systems.RandomSource(50_000, seed=1))
    budget = 1_000_000  # the whole would take 5 * 16 * 50 000 = 4 MB, and the same for copies
    found = solve_streamed(recorder, budget=budget, device=cpu(1), out=np.empty(50_000, complex))
    largest = max(hi - lo for lo, hi in recorder.reads)
    assert largest == found.largest_read == found.block_rows
    assert 11 * 16 * largest <= budget
    assert recorder.reads[: found.blocks] == recorder.reads[found.blocks :]  # twice, in order
    assert [lo for lo, _ in recorder.reads[1 : found.blocks]] == [
        hi for _, hi in recorder.reads[: found.blocks - 1]
    ]


def test_at_most_two_blocks_are_held(monkeypatch):
    """The next block is read while one is at work, not the one after it."""
    from qsim.tridiag.kernels.partition import streamed

    recorder, reduced, lead = Recorder(systems.RandomSource(5000, seed=1)), [], []
    inner = streamed.reduce_pieces

    def slow(*arguments):
        reduced.append(threading.current_thread())
        inner(*arguments)
        lead.append(len(recorder.reads) - len(reduced))

    monkeypatch.setattr(streamed, "reduce_pieces", slow)
    found = solve_streamed(recorder, budget=200 * 16 * 11, device=cpu(1))
    assert found.blocks >= 5
    assert max(lead) <= 1


def test_peak_memory_stays_near_the_budget():
    import tracemalloc

    source = systems.RandomSource(400_000, seed=1, device=cpu(1))
    solve_streamed(systems.RandomSource(100, seed=1), device=cpu(1), keep=False)  # compile
    tracemalloc.start()
    solve_streamed(source, budget=2_000_000, device=cpu(1), keep=False)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000  # in memory the four arrays alone take 25.6 MB


def test_a_budget_that_holds_nothing():
    with pytest.raises(
        MemoryLimitError, match="blocks of 64 rows need 11264 bytes, but only 1000 may be used"
    ):
        solve_streamed(systems.RandomSource(1000), budget=1000)


def test_progress_counts_both_passes():
    seen = []
    found = solve_streamed(
        systems.RandomSource(1000),
        budget=64 * 16 * 11,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(k + 1, 2 * found.blocks) for k in range(2 * found.blocks)]


# --- places of the arrays -------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [0, 2])
def test_memory_maps(tmp_path, columns):
    system = systems.random(3000, seed=8, rhs=max(1, columns))
    maps = []
    for name in "abcd":
        np.save(tmp_path / f"{name}.npy", getattr(system, name))
        maps.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    out = np.memmap(tmp_path / "x.raw", np.complex128, "w+", shape=system.d.shape)
    found = solve_streamed(systems.ArraySource(*maps), budget=400_000, out=out)
    assert found.blocks >= 1
    assert found.x is out
    close(np.asarray(out), lapack(system))


@pytest.mark.parametrize("columns", [0, 2])
def test_hdf5_datasets(tmp_path, columns):
    system = systems.random(3000, seed=8, dtype="real", rhs=max(1, columns))
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["a"], file["b"], file["c"], file["d"] = system.a, system.b[1:], system.c[:-1], system.d
        out = file.create_dataset("x", system.d.shape, float)
        source = systems.ArraySource(*(file[name] for name in "abcd"))
        found = solve_streamed(source, budget=100_000, out=out)
        assert found.blocks >= 2
        close(out[...], lapack(system))


def test_the_place_of_the_solution_must_fit():
    with pytest.raises(ValueError, match=r"solution has shape \(10,\), but the place for it has \(11,\)"):
        solve_streamed(systems.RandomSource(10), out=np.empty(11, complex))


def test_integers_and_single_precision_are_promoted():
    a, ones = np.full(200, 4), np.ones(200, np.float32)
    found = solve_streamed(systems.ArraySource(a, ones, ones, ones), budget=100 * 8 * 11)
    assert found.x.dtype == np.float64
    close(found.x, lapack(system_of(a, ones, ones, ones)))


# --- difficult matrices ---------------------------------------------------------------------------


def cases():
    n = 2002  # even, and n + 1 no multiple of 3: (1, 0, 1) and (-1, 1, -1) are regular
    generator = np.random.default_rng(1)
    normal = [generator.standard_normal(n) for _ in range(3)]
    d = generator.standard_normal(n) + 1j * generator.standard_normal(n)
    ones = np.ones(n)
    block = np.full(n, 4.0)
    block[192:255] = 0.0  # rows of an interior of odd size with a = 0: singular by itself
    potential = np.zeros(n)
    potential[300:380] = -50.0
    half = 0.5 * 1e8j
    return {
        "random": (*normal, d, 1e-11),
        "tiny pivots": (ones + 1e-9, -ones, -ones, d, 1e-11),
        "zero diagonal": (0 * ones, ones, ones, d, 1e-12),
        "diagonal 1e-8": (1e-8 * ones, ones, ones, d, 1e-12),
        "laplace": (2 * ones, -ones, -ones, d, 1e-9),
        "singular interior": (block, ones, ones, d, 1e-12),
        "resonant": (1 + half * (100 + potential), half * -50 * ones, half * -50 * ones, d, 1e-11),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", list(cases()))
def test_difficult_matrices(device, name):
    *arrays, tolerance = cases()[name]
    system = system_of(*arrays)
    where = device_of(device)
    for piece in (64, 128, None):
        budget = 300 * 16 * (18 if where.is_cuda else 11)
        found = solve_streamed(system.source(), budget=budget, device=where, piece=piece)
        close(found.x, lapack(system), tolerance)
        assert found.backward_error < 1e-14
        if name in ("zero diagonal", "singular interior", "tiny pivots"):
            assert found.pivoted
            assert "needed pivoting" in found.notes[0]


def test_refinement_corrects_what_is_written(monkeypatch, tmp_path):
    """A reduced system solved to eight digits is mended by reading the solution back."""
    from qsim.tridiag.solver import pieces

    exact = pieces.Reduced.solve
    monkeypatch.setattr(pieces.Reduced, "solve", lambda self: exact(self) * (1 + 1e-8))
    system = systems.random(2000, seed=2)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        out = file.create_dataset("x", (2000,), complex)
        found = solve_streamed(system.source(), budget=300 * 16 * 11, out=out)
        assert found.refinements == 1
        assert found.backward_error < 1e-14
        close(out[...], lapack(system))
        close(found.profile[1], lapack(system)[found.profile[0]], 1e-12)
        assert found.checks["sum"] == pytest.approx(lapack(system).sum(), rel=1e-12)


def test_what_cannot_be_refined_is_an_error(monkeypatch):
    from qsim.tridiag.solver import pieces

    exact = pieces.Reduced.solve
    monkeypatch.setattr(pieces.Reduced, "solve", lambda self: exact(self) * 1.01)
    with pytest.raises(NumericsError, match=r"backward error .* exceeds 1e-08"):
        solve_streamed(systems.RandomSource(1000), keep=False)


def test_singular_matrices_name_a_row():
    n = 999
    system = system_of(np.zeros(n), np.ones(n), np.ones(n), np.ones(n))
    with pytest.raises(SingularMatrixError, match="singular: the pivot of row") as caught:
        solve_streamed(system.source(), budget=100 * 8 * 11)
    assert 0 <= caught.value.row < n


def test_strict_runs_refuse_small_pivots():
    system = system_of(np.zeros(1000), np.ones(1000), np.ones(1000), np.ones(1000))
    with pytest.raises(NumericsError, match="rows 0 to .* relative pivot of 0, below 0.001"):
        solve_streamed(system.source(), on_unstable="error")


@pytest.mark.parametrize("name", "abcd")
@pytest.mark.parametrize("row", [1, 63, 64, 500, 997])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_every_element_must_be_finite(name, row, value):
    system = systems.random(999, seed=1, dtype="real")
    getattr(system, name)[row] = value
    with pytest.raises(ValueError, match=rf"{name}\[{row}\] is not finite"):
        solve_streamed(system.source(), budget=100 * 8 * 11, piece=64)


def test_a_piece_that_is_singular_is_cut():
    ones = np.ones(64)
    part = stubborn(0, 0 * ones, ones, ones, ones[None])  # 63 interior rows with a zero diagonal: singular
    assert len(part.joint) == 2
    assert part.joint[-1] == 63
    whole = stubborn(0, 4 * ones, ones, ones, ones[None])
    assert whole.joint.tolist() == [63]


# --- decks ----------------------------------------------------------------------------------------


def run_deck(folder, text, monitor=None, device=None):
    path = folder / "deck.yaml"
    path.write_text("method: tridiag\n" + text)
    loaded = load_deck(path, stage("tridiag", "deck").DECK)
    loaded.raise_for(stage("tridiag", "build").plan(loaded).findings)
    problem = stage("tridiag", "build").build(loaded, device or cpu(1))
    return stage("tridiag", "run").run(problem, monitor or Monitor.silent())


SOLVE = "task: solve\nsystem: {source: random, n: 20000, seed: 1%s}\n"


def values(result):
    return {name: scalar.value for name, scalar in output.scalars(result).items()}


def test_a_deck_is_streamed_when_memory_is_short(tmp_path):
    whole = run_deck(tmp_path, SOLVE % "")
    streamed = run_deck(tmp_path, SOLVE % "" + "solver: {memory: 1 MB}")
    close(streamed.x, whole.x)
    one, two = values(whole), values(streamed)
    assert two["algorithm"] == "nshape-streamed"
    assert two["blocks"] > 1
    for name in ("x_sum_real", "x_wsum_imag", "x_mid_real", "x_sum_abs2", "x_max_abs"):
        assert one[name] == pytest.approx(two[name], rel=1e-9)
    for result in (whole, streamed):
        arrays = output.arrays(result)
        assert arrays["profile_row"].shape == arrays["profile_residual"].shape
        resolve_dimensions(match_tables(output.tables(result), arrays), arrays)


def test_a_solution_that_does_not_fit_goes_into_a_file_of_its_own(tmp_path):
    monitor = Monitor(quiet=True, checkpoint=tmp_path / "deck.ckpt.h5")
    result = run_deck(tmp_path, SOLVE % ", rhs: 2" + "solver: {memory: 500 kB}", monitor)
    assert result.x is None
    assert values(result)["x_file"] == "deck.x.h5"
    with h5py.File(tmp_path / "deck.x.h5") as file:
        close(file["x"][...], lapack(systems.random(20_000, seed=1, rhs=2)))
    result = run_deck(tmp_path, SOLVE % ", rhs: 2" + "solver: {memory: 500 kB}")
    assert result.x is None
    assert "only its check sums" in result.notes[0]


@pytest.mark.parametrize("memory", ["auto", "400 kB"])
@pytest.mark.parametrize("extra", ["batch: 3", "rhs: 2", "batch: 3, rhs: 2", "batch: 2, dtype: real"])
def test_batches_and_columns_of_decks(tmp_path, extra, memory):
    text = f"task: solve\nsystem: {{source: random, n: 2000, seed: 4, {extra}}}\nsolver: {{memory: {memory}}}"
    result = run_deck(tmp_path, text)
    options = dict(part.split(": ") for part in extra.split(", "))
    source = systems.RandomSource(
        2000,
        4,
        1.5,
        options.get("dtype", "complex"),
        int(options.get("batch", 1)),
        int(options.get("rhs", 1)),
    )
    x = lapack(systems.materialise(source)).reshape(source.n, -1)
    shape = [size for size in (source.batch, 2000, source.columns) if size > 1]
    assert list(result.x.shape) == shape
    close(result.x, x.reshape(shape))


def test_single_precision_decks(tmp_path):
    for memory in ("auto", "200 kB"):
        result = run_deck(
            tmp_path, SOLVE % ", dtype: real" + f"run: {{precision: single}}\nsolver: {{memory: {memory}}}"
        )
        assert result.x.dtype == np.float32
        assert values(result)["backward_error"] < 1e-6


def test_files_are_streamed(tmp_path):
    system = systems.random(20_000, seed=3, dtype="real")
    np.savez(tmp_path / "s.npz", a=system.a, b=system.b, c=system.c, d=system.d)
    text = "task: solve\nsystem: {source: file, file: s.npz}\nsolver: {memory: 400 kB}"
    result = run_deck(tmp_path, text)
    assert values(result)["blocks"] >= 5
    close(result.x, lapack(system))
    system.b[17] = np.nan
    np.savez(tmp_path / "s.npz", a=system.a, b=system.b, c=system.c, d=system.d)
    for solver in ("", "\nsolver: {memory: 400 kB}"):
        with pytest.raises(FileError, match=r"s.npz: b\[17\] is not finite"):
            run_deck(tmp_path, "task: solve\nsystem: {source: file, file: s.npz}" + solver)


def test_blocks_that_do_not_fit_are_told_at_their_key(tmp_path):
    np.savez(tmp_path / "s.npz", a=np.ones(5), b=np.ones(5), c=np.ones(5), d=np.ones(5))
    for system in ("{source: file, file: s.npz}", "{source: random, n: 5}"):
        for blocks, message in (
            (9, "at most 4 blocks, not 9"),
            ("[2, 2]", "hold 4 rows, but the system has 5"),
        ):
            with pytest.raises(DeckError, match=rf"deck.yaml:4:\d+: solver.blocks: .*{message}"):
                run_deck(tmp_path, f"task: solve\nsystem: {system}\nsolver: {{blocks: {blocks}}}")


@pytest.mark.parametrize("source", ["crank_nicolson, potential: {type: softcore}", "laplace"])
@pytest.mark.parametrize("solver", ["nshape", "thomas", "lapack", "woodbury"])
def test_generators_and_solvers_of_decks(tmp_path, source, solver):
    result = run_deck(
        tmp_path, f"task: solve\nsystem: {{source: {source}, n: 3000, seed: 103}}\nsolver: {{type: {solver}}}"
    )
    make = systems.laplace if source == "laplace" else systems.crank_nicolson
    close(result.x, lapack(make(3000, seed=103)), 1e-9)
    assert values(result)["backward_error"] < 1e-14


def test_scaling(tmp_path):
    text = "task: scaling\nscaling: {n: [4000, 1000], blocks: [4, 16, 64, 2000], iterations: [1, 2], repeats: 1, "
    result = run_deck(tmp_path, text + "compare: [thomas, lapack, woodbury]}")
    arrays, scalars = output.arrays(result), values(result)
    assert arrays["times"].shape == (2, 2, 4)
    assert np.isnan(arrays["times"][1, :, 3]).all()
    assert np.count_nonzero(np.isnan(arrays["times"])) == 2
    assert (arrays["compare/lapack"] > 0).all()
    assert scalars["backward_error"] < 1e-14
    assert scalars["optimum_blocks"] in (4, 16, 64, 2000)
    assert scalars["alpha"] >= 0
    assert {"thomas_seconds", "speedup_lapack", "optimum_model_2", "optimum_exponent"} <= set(scalars)
    resolve_dimensions(match_tables(output.tables(result), arrays), arrays)


def test_automatic_numbers_of_blocks():
    assert block_numbers([300_000]) == [2**k for k in range(4, 16)]
    assert block_numbers([10]) == [2]


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (5,)])
def test_the_solution_has_the_shape_of_the_right_hand_side(tridiag, shape):
    rows = shape if shape == (1, 5) else (5,)
    d = np.arange(5.0).reshape(shape)
    np.savez(tridiag.folder / "s.npz", a=np.full(rows, 2.0), b=np.zeros(rows), c=np.zeros(rows), d=d)
    result = tridiag.run(task="solve", system={"source": "file", "file": "s.npz"})
    assert result.x.shape == shape
    assert np.allclose(result.x, d / 2.0, rtol=1e-15)

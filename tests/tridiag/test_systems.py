"""Systems: generators, and files in every format, with every complaint."""

import gzip
import itertools
import time

import h5py
import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import FileError
from qsim.core.results.hdf5 import Dataset
from qsim.core.run.loop import Progress
from qsim.tridiag.solver import systems
from qsim.tridiag.solver.pieces import gtsv
from qsim.tridiag.solver.readers import open_system, read_rhs, read_system
from qsim.tridiag.systems.run import _Whole

RNG = np.random.default_rng(5)


def dense(a, b, c):
    """Full matrix of three diagonals (n,), corners ignored."""
    return np.diag(a) + np.diag(b[1:], -1) + np.diag(c[:-1], 1)


def lapack(system):
    x, row = gtsv(system.a, system.b, system.c, system.d.reshape(system.n, -1))
    assert row is None
    return x.reshape(system.d.shape)


def numbers(n, kind="complex", generator=RNG):
    real = generator.standard_normal(n)
    return real + 1j * generator.standard_normal(n) if kind == "complex" else real


# --- generators -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["complex", "real", "complex64", "float32"])
def test_random_systems_do_not_depend_on_the_blocks(dtype):
    source = systems.RandomSource(101, seed=3, dtype=dtype, batch=3, columns=2)
    whole = source.read(0, source.n)
    for cuts in ([0, 303], [0, 1, 100, 101, 102, 303], list(range(0, 304, 3))):
        parts = [source.read(lo, hi) for lo, hi in itertools.pairwise(cuts)]
        for index in range(4):
            assert np.array_equal(np.concatenate([part[index] for part in parts], axis=-1), whole[index])
    assert not np.any(whole[1][::101])
    assert not np.any(whole[2][100::101])
    assert np.count_nonzero(whole[1] == 0) == np.count_nonzero(whole[2] == 0) == 3


def test_random_systems_do_not_depend_on_the_threads():
    one, two = (systems.RandomSource(70_000, device=cpu(threads)).read(0, 70_000) for threads in (1, 2))
    assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))


@pytest.mark.parametrize("dtype", ["complex", "real"])
def test_dominance_is_what_it_says(dtype):
    system = systems.random(1000, dominance=2.5, dtype=dtype)
    inner = slice(1, -1)
    ratio = np.abs(system.a[inner]) / (np.abs(system.b[inner]) + np.abs(system.c[inner]))
    assert ratio == pytest.approx(2.5, rel=1e-12)
    assert abs(system.a.mean()) < 1.0  # phases (signs) average out
    spread = np.var(system.d.real)
    assert spread == pytest.approx(1.0, rel=0.2)


def test_the_rows_of_a_random_system_go_beyond_32_bits():
    source = systems.RandomSource(2**33, seed=1)
    low, high = source.read(5, 8), source.read(2**32 + 5, 2**32 + 8)
    assert not np.any(low[0] == high[0])
    assert all(np.isfinite(part).all() for part in high)


def test_seeds_and_sizes_matter():
    first, again = systems.random(50, seed=1), systems.random(50, seed=1)
    assert np.array_equal(first.d, again.d)
    assert not np.any(first.d == systems.random(50, seed=2).d)
    assert np.array_equal(systems.random(80, seed=1).d[:50], first.d)
    with pytest.raises(ValueError, match="at least 1"):
        systems.RandomSource(0)
    with pytest.raises(ValueError, match="float32, float64, complex64 or complex128, not int64"):
        systems.RandomSource(5, dtype="int64")


@pytest.mark.parametrize(
    ("make", "checks"),
    [
        (
            lambda: systems.random(1000, 101, dominance=None),
            (-7.505414821265923 - 2.819661932492456j, 54.55610309847383),
        ),
        (
            lambda: systems.crank_nicolson(300_000, seed=103),
            (-1068.328429896146 - 671.3266024933121j, 204850.1133491836),
        ),
        (lambda: systems.laplace(10_000, 105), (-425856591.7903614, 31194717558483.92)),
        (
            lambda: systems.random(2, 112, dominance=None),
            (0.15697840550657244 + 0.3618369418475517j, 0.13819738653217783),
        ),
    ],
    ids=["S01", "S03", "S05", "S10_n2"],
)
def test_reference_recipes(make, checks):
    """Sums of the solutions in extended precision, from the same recipes."""
    x = lapack(make())
    assert x.sum() == pytest.approx(checks[0], rel=1e-9)
    assert np.sum(np.abs(x) ** 2) == pytest.approx(checks[1], rel=1e-9)


def test_sequential_numbers_can_be_entered_anywhere(monkeypatch):
    monkeypatch.setattr(systems, "STATE_EVERY", 64)
    expected = np.random.Generator(np.random.PCG64(9)).standard_normal(1000)
    sequence = systems.NormalSequence(9)
    for start, count in ((700, 20), (0, 64), (63, 2), (128, 500), (999, 1), (0, 1000)):
        assert np.array_equal(sequence.read(start, count), expected[start : start + count])
    whole = systems.CrankNicolsonSource(500, seed=4).read(0, 500)
    part = systems.CrankNicolsonSource(500, seed=4).read(201, 399)
    assert all(np.array_equal(x[..., 201:399], y) for x, y in zip(whole, part, strict=True))


def test_crank_nicolson_takes_a_potential():
    system = systems.crank_nicolson(11, dx=0.5, dt=0.1, potential=lambda x: 2.0 * x)
    x = (np.arange(11) - 5) * 0.5
    assert system.a == pytest.approx(1 + 0.05j * (1 / 0.25 + 2.0 * x))
    assert system.b[1:] == pytest.approx(-0.1j)
    with pytest.raises(ValueError, match="complex"):
        systems.CrankNicolsonSource(5, dtype="real")


def test_known_solution_of_laplace():
    system = systems.laplace(50, rhs="ones")
    assert lapack(system) == pytest.approx(system.exact_x, rel=1e-12)
    with pytest.raises(ValueError, match="'random' or 'ones'"):
        systems.laplace(5, rhs="twos")


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("batch", [0, 3])
def test_arrays_are_read_in_blocks(short, batch):
    n, shape = 20, (3, 20) if batch else (20,)
    a, b, c, d = (RNG.standard_normal(shape) for _ in range(4))
    source = systems.ArraySource(a, b[..., 1:] if short else b, c[..., :-1] if short else c, d)
    whole = source.read(0, source.n)
    assert np.array_equal(whole[0], a.ravel())
    expected = b.copy()
    expected[..., 0] = 0
    assert np.array_equal(whole[1], expected.ravel())
    expected = c.copy()
    expected[..., -1] = 0
    assert np.array_equal(whole[2], expected.ravel())
    for lo in range(source.n):
        for hi in (lo + 1, min(lo + 7, source.n), min(lo + n + 3, source.n)):
            if hi > lo:
                part = source.read(lo, hi)
                assert all(np.array_equal(x[..., lo:hi], y) for x, y in zip(whole, part, strict=True))


# --- npz and HDF5 ---------------------------------------------------------------------------------


def write(path, arrays, compressed=False):
    if path.suffix == ".npz":
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    return path


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".hdf5"])
@pytest.mark.parametrize("kind", ["real", "complex", "mixed", "integer"])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("columns", [0, 3])
def test_round_trip(tmp_path, suffix, kind, short, columns):
    n = 9
    a, b, c = (numbers(n, "complex" if kind == "complex" else "real") for _ in range(3))
    d = numbers((n, columns) if columns else n, "real" if kind == "real" else "complex")
    if kind == "integer":
        a, b, c = (np.arange(n) + k for k in (10, 1, 2))
    b[0] = c[-1] = 7  # unused
    given = {"a": a, "b": b[1:] if short else b, "c": c[:-1] if short else c, "d": d}
    path = write(tmp_path / f"system{suffix}", given)
    found = read_system(path)
    assert np.array_equal(found.a, a)
    assert np.array_equal(dense(found.a, found.b, found.c), dense(a, b, c))
    assert np.array_equal(found.d, d)
    assert found.b[0] == found.c[-1] == 0
    assert found.dtype == (np.float64 if kind == "real" else np.complex128)
    assert found.name == path.name
    with open_system(path) as opened:
        rows = opened.source.read(2, 7)
        assert np.array_equal(rows[1], found.b[2:7])
        assert np.array_equal(rows[3], np.atleast_2d(d.T)[:, 2:7])


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_batches_and_compression(tmp_path, suffix):
    arrays = {name: RNG.standard_normal((4, 6)) for name in "abcd"}
    found = read_system(write(tmp_path / f"batch{suffix}", arrays, compressed=True))
    assert found.batch == 4
    assert found.n == 6
    assert np.array_equal(found.d, arrays["d"])
    assert np.array_equal(found.source().read(0, 24)[0], arrays["a"].ravel())


def test_single_precision_stays_single(tmp_path):
    arrays = {name: np.ones(5, np.float32) for name in "abcd"}
    assert read_system(write(tmp_path / "s.npz", arrays)).dtype == np.float32


def test_large_files_stay_on_disk(tmp_path):
    path = write(tmp_path / "s.npz", {name: np.ones(1000) for name in "abcd"})
    with open_system(path) as opened:
        assert all(isinstance(array, np.memmap) for array in opened.arrays.values())
    path = write(tmp_path / "s.h5", {name: np.ones(1000) for name in "abcd"})
    with open_system(path) as opened:
        assert all(isinstance(array, Dataset) for array in opened.arrays.values())


GOOD = {"a": np.full(4, 4.0), "b": np.ones(4), "c": np.ones(4), "d": np.ones(4)}


def changed(**parts):
    return {name: array for name, array in (GOOD | parts).items() if array is not None}


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (changed(b=None), r"no array 'b' \(the lower diagonal\); it holds a \(4,\), c \(4,\), d \(4,\)"),
        (changed(d=None), r"no array 'd' \(the right-hand side\)"),
        (
            changed(b=np.ones(5)),
            r"b has shape \(5,\), but a has shape \(4,\); b must have shape \(4,\) or \(3,\)",
        ),
        (changed(c=np.ones(2)), r"c has shape \(2,\)"),
        (
            changed(d=np.ones(5)),
            r"d has shape \(5,\), but the matrix has 4 rows; d must have shape \(4,\) or \(4, k\)",
        ),
        (changed(d=np.ones((2, 4))), r"d has shape \(2, 4\)"),
        (changed(a=np.ones((1, 1, 4))), r"a has shape \(1, 1, 4\)"),
        (changed(a=np.array(3.0)), r"a has shape \(\); it must be"),
        (changed(a=np.ones(0)), r"a has shape \(0,\); it must be .* at least one row"),
        (changed(a=np.array([1, 2, np.nan, 4])), r"a\[2\] is nan; all numbers must be finite"),
        (changed(b=np.array([np.nan, 1, np.inf, 4])), r"b\[2\] is inf"),
        (changed(c=np.array([1, -np.inf, 1, np.nan])), r"c\[1\] is -inf"),
        (changed(d=np.array([[1, 1], [1, np.nan], [1, 1], [1, 1]])), r"d\[1, 1\] is nan"),
        (changed(a=np.array([b"x"] * 4)), r"a holds \|S1, not numbers"),
    ],
)
def test_mistakes_in_files(tmp_path, suffix, arrays, message):
    path = write(tmp_path / f"bad{suffix}", arrays)
    with pytest.raises(FileError, match=message) as caught:
        read_system(path)
    assert str(path) in str(caught.value)


def test_unused_corners_may_hold_anything(tmp_path):
    path = write(tmp_path / "s.npz", changed(b=np.array([np.nan, 1, 1, 1]), c=np.array([1, 1, 1, np.inf])))
    assert np.isfinite(read_system(path).b).all()
    with open_system(path) as opened:
        assert np.isfinite(np.concatenate(opened.source.read(0, 4)[1:3])).all()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.npz", None, "does not exist"),
        ("other.dat", b"1 2", r"a system is read from .npz, .h5, .hdf5, .mtx, .mtx.gz, not '.dat'"),
        ("broken.npz", b"not a zip", "cannot be read"),
        ("broken.h5", b"not HDF5", "cannot be read"),
        ("empty.npz", b"", "cannot be read"),
    ],
)
def test_unreadable_files(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=message):
        read_system(tmp_path / name)


def test_objects_are_refused(tmp_path):
    np.savez(tmp_path / "o.npz", **changed(a=np.array([None] * 4, dtype=object)))
    with pytest.raises(FileError, match="array 'a' holds Python objects"):
        read_system(tmp_path / "o.npz")


def test_folders_are_refused(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        read_system(tmp_path / "folder.npz")


# --- right-hand sides -----------------------------------------------------------------------------


def matrix_file(tmp_path):
    return write(tmp_path / "matrix.npz", changed(d=None))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", ".mtx", ".txt", ".csv"])
@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_right_hand_sides(tmp_path, suffix, columns, kind):
    d, path = numbers((4, columns) if columns else 4, kind), tmp_path / f"rhs{suffix}"
    if suffix == ".npy":
        np.save(path, d)
    elif suffix in (".npz", ".h5"):
        write(path, {"anything": d})
    elif suffix == ".mtx":
        table = d.reshape(4, -1).T.ravel()
        lines = [f"{z.real!r} {z.imag!r}" if kind == "complex" else f"{float(z)!r}" for z in table.tolist()]
        head = f"%%MatrixMarket matrix array {kind} general\n4 {columns or 1}\n"
        path.write_text(head + "\n".join(lines))
    else:
        mark = "," if suffix == ".csv" else " "
        rows = (mark.join(str(z).strip("()") for z in row) for row in d.reshape(4, -1).tolist())
        path.write_text("# a comment\n" + "\n".join(rows) + "\n\n")
    assert np.array_equal(read_system(matrix_file(tmp_path), path).d, d)
    assert np.array_equal(np.asarray(read_rhs(path)), d)


def test_a_right_hand_side_file_goes_before_d(tmp_path):
    np.save(tmp_path / "rhs.npy", np.arange(4.0))
    path = write(tmp_path / "s.npz", GOOD)
    assert np.array_equal(read_system(path, tmp_path / "rhs.npy").d, np.arange(4.0))
    write(tmp_path / "both.npz", {"d": np.arange(4.0), "other": np.ones(3)})
    assert np.array_equal(read_rhs(tmp_path / "both.npz"), np.arange(4.0))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.txt", "1\n2\nx\n4", r"r.txt:3: 'x' is not a finite number"),
        ("r.csv", "1,2\n3\n", r"r.csv:2: 1 columns, but 2 in the lines before"),
        ("r.txt", "# nothing\n", "holds no numbers"),
        ("r.txt", "1\n2\n3\n4\n5\n", r"d has shape \(5,\), but the matrix has 4 rows"),
        ("r.txt", "1\nnan\n3\n4\n", r"r.txt:2: 'nan' is not a finite number"),
        ("r.npy", "junk", "cannot be read"),
        ("r.xyz", "1", "a right-hand side is read from .npy"),
        (
            "r.mtx",
            "%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n",
            "a right-hand side is 'general'",
        ),
    ],
)
def test_mistakes_in_right_hand_sides(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=message):
        read_system(matrix_file(tmp_path), tmp_path / name)


def test_several_arrays_without_d(tmp_path):
    write(tmp_path / "two.npz", {"x": np.ones(4), "y": np.ones(4)})
    with pytest.raises(FileError, match=r"no array 'd' \(the right-hand side\); it holds x \(4,\), y \(4,\)"):
        read_rhs(tmp_path / "two.npz")


# --- MatrixMarket ---------------------------------------------------------------------------------


def market(path, matrix, form, field, symmetry):
    """Write a dense matrix as scipy would, in the triangle that the symmetry asks for."""
    n = len(matrix)
    low = 1 if symmetry == "skew-symmetric" else 0

    def text(z):
        return (
            f"{z.real!r} {z.imag!r}"
            if field == "complex"
            else f"{int(z.real) if field == 'integer' else z.real!r}"
        )

    places = [
        (i, j)
        for j in range(n)
        for i in (range(n) if symmetry == "general" else range(j + low, n))
        if form == "array" or matrix[i, j] != 0
    ]
    values = matrix.tolist()
    lines = [f"%%MatrixMarket matrix {form} {field} {symmetry}", "% comment", ""]
    lines.append(f"{n} {n} {len(places)}" if form == "coordinate" else f"{n} {n}")
    for i, j in places:
        entry = text(complex(values[i][j]))
        lines.append(f"{i + 1} {j + 1} {entry}" if form == "coordinate" else entry)
    content = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content)
    return path


@pytest.mark.parametrize("form", ["coordinate", "array"])
@pytest.mark.parametrize(
    ("field", "symmetry"),
    [
        (field, symmetry)
        for field in ("real", "integer", "complex")
        for symmetry in ("general", "symmetric", "skew-symmetric", "hermitian")
        if field == "complex" or symmetry != "hermitian"
    ],
)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_matrix_market(tmp_path, form, field, symmetry, n):
    a, b, c = (numbers(n, "complex" if field == "complex" else "real") for _ in range(3))
    if field == "integer":
        a, b, c = (np.round(10 * z) for z in (a, b, c))
    b[0] = c[-1] = 0
    if symmetry == "symmetric":
        c[:-1] = b[1:]
    elif symmetry == "hermitian":
        a, c[:-1] = a.real.astype(complex), b[1:].conj()
    elif symmetry == "skew-symmetric":
        a, c[:-1] = 0 * a, -b[1:]
    matrix = dense(a, b, c)
    path = market(tmp_path / ("m.mtx.gz" if n == 7 else "m.mtx"), matrix, form, field, symmetry)
    np.save(tmp_path / "d.npy", np.ones(n))
    found = read_system(path, tmp_path / "d.npy")
    assert np.array_equal(dense(found.a, found.b, found.c), matrix)
    assert found.dtype == (np.complex128 if field == "complex" else np.float64)


HEAD = "%%MatrixMarket matrix "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\n", "not a MatrixMarket file"),
        ("", "not a MatrixMarket file"),
        (HEAD + "list real general\n", "1: unknown format 'list'; known are coordinate, array"),
        (HEAD + "coordinate quad general\n", "unknown field 'quad'"),
        (HEAD + "coordinate real odd\n", "unknown symmetry 'odd'"),
        (HEAD + "coordinate pattern general\n1 1 1\n1 1\n", "a pattern has no values"),
        (HEAD + "coordinate real hermitian\n1 1 1\n1 1 1\n", "a hermitian matrix is complex"),
        (
            HEAD + "coordinate real general\n% c\n2 2\n",
            "3: expected the numbers of rows, columns and entries, found '2 2'",
        ),
        (HEAD + "array real general\n2 2 4\n", "expected the numbers of rows and columns"),
        (HEAD + "coordinate real general\n0 0 0\n", "a matrix of 0 x 0 is empty"),
        (HEAD + "coordinate real symmetric\n2 3 0\n", "a symmetric matrix is square, not 2 x 3"),
        (HEAD + "coordinate real general\n2 3 1\n1 1 1\n", "the matrix must be square, not 2 x 3"),
        (HEAD + "coordinate real general\n2 2 3\n1 1 1\n2 2 1\n", "3 entries are announced, but 2 found"),
        (HEAD + "array real general\n2 2\n1\n2\n3\n", "4 entries are announced, but 3 found"),
        (HEAD + "coordinate real general\n2 2 1\n1 1 1 5\n", "3: 4 numbers in a line; a real matrix has 3"),
        (
            HEAD + "coordinate complex general\n2 2 1\n1 1 1\n",
            "3: 3 numbers in a line; a complex matrix has 4",
        ),
        (HEAD + "coordinate real general\n2 2 2\n1 1 1\n2 2 1+2j\n", r"4: '1\+2j' is not a number"),
        (HEAD + "coordinate real general\n2 2 2\n1 1 1\n3 2 1\n", r"entry 2 has row 3, outside of 1 .. 2"),
        (HEAD + "coordinate real general\n2 2 2\n1 1 1\n2 0 1\n", r"entry 2 has column 0, outside of 1 .. 2"),
        (HEAD + "coordinate real general\n2 2 1\n1.5 1 1\n", "entry 1 has row 1.5"),
        (HEAD + "coordinate real general\n2 2 2\n1 1 1\n1 1 2\n", r"duplicate entry \(1, 1\)"),
        (
            HEAD + "coordinate real symmetric\n2 2 1\n1 2 1\n",
            r"stored on and below the diagonal, but .* \(1, 2\)",
        ),
        (
            HEAD + "coordinate real skew-symmetric\n2 2 1\n1 1 1\n",
            r"stored below the diagonal, but .* \(1, 1\)",
        ),
        (HEAD + "coordinate complex hermitian\n2 2 1\n2 2 1 3\n", r"entry \(2, 2\) is 1\+3j"),
        (
            HEAD + "coordinate real general\n4 4 2\n1 1 1\n4 2 8\n",
            r"not tridiagonal: entry \(4, 2\) is 8 \(1 entries outside\)",
        ),
        (
            HEAD + "array real general\n3 3\n1\n1\n5\n1\n1\n1\n0\n1\n1\n",
            r"not tridiagonal: entry \(3, 1\) is 5",
        ),
        (HEAD + "coordinate real general\n2 2 1\n1 2 nan\n", r"entry \(1, 2\) is not finite"),
        (HEAD + "array real general\n1 1\ninf\n", "entry 1 is not finite"),
    ],
)
def test_mistakes_in_matrix_market(tmp_path, content, message):
    path = tmp_path / "m.mtx"
    path.write_text(content)
    np.save(tmp_path / "d.npy", np.ones(2))
    with pytest.raises(FileError, match=message) as caught:
        read_system(path, tmp_path / "d.npy")
    assert str(path) in str(caught.value)


def test_a_matrix_needs_a_right_hand_side(tmp_path):
    path = market(tmp_path / "m.mtx", np.eye(3), "coordinate", "real", "general")
    with pytest.raises(FileError, match="holds a matrix, but no right-hand side") as caught:
        read_system(path)
    assert "system.rhs" in caught.value.hint


def test_explicit_zeros_far_from_the_diagonal_do_not_count(tmp_path):
    path = tmp_path / "m.mtx"
    path.write_text(HEAD + "coordinate real general\n3 3 4\n1 1 1\n2 2 1\n3 3 1\n3 1 0\n")
    np.save(tmp_path / "d.npy", np.ones(3))
    assert np.array_equal(read_system(path, tmp_path / "d.npy").a, np.ones(3))


def test_a_stop_is_heard_beside_work_in_memory():
    """Reports come every quarter of a second; one that raises ends the caller while the work goes on."""
    reports = []
    whole = _Whole(lambda: time.sleep(0.8) or 5, cpu(1), True)
    whole.advance(reports.append)
    assert whole.found == 5
    assert len(reports) >= 3
    assert reports[-1] == Progress(1, savable=False)

    def refuse(progress):
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _Whole(lambda: time.sleep(2.0), cpu(1), False).advance(refuse)
    assert time.monotonic() - begun < 1.5

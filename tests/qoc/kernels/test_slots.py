"""The slot kernels: dense truncated series = CPU twin = CUDA.

Tolerance. A product with a sparse row of r entries rounds by ``r eps``, a series of m terms adds as many numbers, and N slots of
p parts follow each other: ``eps N p (r + m)`` of the largest element. The matrices of the tests are nearly unitary, so that
columns and costates neither grow nor shrink.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from qsim.core.device.device import cpu
from qsim.qoc.kernels import slots
from qsim.qoc.kernels.slots import Pattern, SlotBatch, fits, kept_columns, slot_backward, slot_forward

EPS = {np.dtype(np.float64): 2.3e-16, np.dtype(np.float32): 1.2e-7}
C = 8.0  # of the bound; at most 0.6 was seen on a CPU
TAU = 0.3


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


class Slots:
    """Members with matrices of their own on one pattern, columns and costates."""

    def __init__(self, rows, columns, controls=2, count=3, members=3, terms=9, parts=1, seed=1):
        rng = np.random.default_rng([seed, rows, columns, controls, members])

        def random(*shape):
            return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)

        # on average four entries a row besides the diagonal
        filled = rng.random((rows, rows)) < 2.0 / rows
        filled |= filled.T | np.eye(rows, dtype=bool)
        form = csr_array(filled.astype(float))
        self.pattern = Pattern(form.indptr.astype(np.int64), form.indices.astype(np.int64))
        h = np.zeros((members, controls + 1, rows, rows), complex)
        h[...] = random(*h.shape) * filled
        h = h + h.conj().swapaxes(-1, -2)
        # a little loss: nothing is assumed to be anti-Hermitian
        h[:, 0] -= 0.05j * np.eye(rows)
        # the norm by rows bounds the spectral one
        size = np.abs(h).sum(axis=-1, keepdims=True).max(axis=-2, keepdims=True)
        self.matrices = -1j * h / size
        row, column = np.nonzero(filled)
        values = np.ascontiguousarray(self.matrices[:, :, row, column])
        self.batch = SlotBatch(self.pattern, values, TAU / parts, terms, parts)
        self.factors = rng.standard_normal((controls, count)) / np.sqrt(controls)
        self.x, self.lam = random(members, rows, columns), random(members, rows, columns)
        entries = self.pattern.entries / rows
        self.bound = C * count * parts * (entries + terms)

    def run(self, device, real=np.float64):
        """Return final columns, costates at t = 0, gradients and the kept trajectory."""
        kind = np.result_type(real, np.complex64)
        batch = replace(self.batch, values=device.asarray(self.batch.values.astype(kind)))
        factors = device.asarray(self.factors.astype(real))
        x, lam, again = (device.asarray(split(z).astype(real)) for z in (self.x, self.lam, self.x))
        kept = (x.shape[0], self.factors.shape[1] * batch.parts, *x.shape[1:])
        trajectory = device.asarray(np.full(kept, np.nan, real))
        slot_forward(device, batch, factors, x, trajectory)
        slot_forward(device, batch, factors, again)
        # without a trajectory the same numbers
        assert np.array_equal(device.to_host(again), device.to_host(x))
        gradient = slot_backward(device, batch, factors, lam, trajectory)
        return [device.to_host(a) for a in (x, lam, gradient, kept_columns(trajectory))]

    def dense(self):
        """Return the same from dense matrices; derivatives from the series of ``[[A, B], [0, A]]``, no costate involved."""
        b, rows = self.batch, self.pattern.rows
        finals, costates, gradients = [], [], []
        for a, x, lam in zip(self.matrices, self.x, self.lam, strict=True):
            parts = [series(TAU * (a[0] + np.tensordot(f, a[1:], 1)), b) for f in self.factors.T]
            whole = np.eye(rows)
            for step in parts:
                whole = step @ whole
            finals.append(whole @ x)
            costates.append(whole.conj().T @ lam)
            rates = np.empty(self.factors.shape)
            before, after = x, lam
            # costates of the slots that follow, by plain products
            later = [after := step.conj().T @ after for step in reversed(parts)][::-1]
            later = [*later[1:], lam]
            for n, (f, step) in enumerate(zip(self.factors.T, parts, strict=True)):
                here = TAU * (a[0] + np.tensordot(f, a[1:], 1))
                for c in range(self.factors.shape[0]):
                    block = np.block([[here, TAU * a[c + 1]], [np.zeros_like(here), here]])
                    change = series(block, b)[:rows, rows:]
                    rates[c, n] = 2.0 * np.vdot(later[n], change @ before).real
                before = step @ before
            gradients.append(rates)
        return np.array(finals), np.array(costates), np.array(gradients)


def split(columns):
    """Return complex columns (M, D, S) as the kernels take them, (M, D, 2 S)."""
    return np.ascontiguousarray(np.concatenate([columns.real, columns.imag], axis=2))


def series(a, batch):
    """Return the truncated series of all parts of a slot."""
    part = a / batch.parts
    term = total = np.eye(a.shape[0], dtype=complex)
    for k in range(1, batch.terms + 1):
        term = part @ term / k
        total = total + term
    return np.linalg.matrix_power(total, batch.parts)


def check(problem, device, real=np.float64):
    x, lam, gradient, trajectory = problem.run(device, real)
    finals, costates, gradients = problem.dense()
    tolerance = EPS[np.dtype(real)] * problem.bound
    both = [split(z) for z in (problem.x, finals, costates)]
    for found, wanted in ((trajectory[:, 0], both[0]), (x, both[1]), (lam, both[2]), (gradient, gradients)):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("rows", [1, 2, 4, 31, 32, 33])
@pytest.mark.parametrize("columns", [1, 3, 4])
def test_slots(device, rows, columns):
    check(Slots(rows, columns), device)


@pytest.mark.parametrize(
    "case",
    [
        {"members": 1},
        {"members": 33, "controls": 1},
        {"controls": 40, "parts": 3, "count": 2},
        {"terms": 1, "count": 7},
        {"terms": 30, "parts": 2},
    ],
    ids=str,
)
def test_slots_of_other_sizes(device, case):
    check(Slots(5, 4, **case), device)


@pytest.mark.gpu
@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (4, 70), (25, 4), (81, 16), (200, 3), (300, 2)])
@pytest.mark.parametrize("real", [np.float64, np.float32], ids=["double", "single"])
def test_slots_in_groups_of_columns(cuda, rows, columns, real):
    check(Slots(rows, columns), cuda, real)


@pytest.mark.gpu
@pytest.mark.parametrize("limit", [24 << 10, 0], ids=["products outside", "matrices outside"])
def test_slots_beyond_the_shared_memory_of_a_block(cuda, monkeypatch, limit):
    if limit:
        monkeypatch.setattr(slots, "SHARED_BYTES", limit)
    monkeypatch.setattr(slots, "TABLE_BYTES", 0)
    check(Slots(16, 4, terms=25, parts=2), cuda)


def test_launch_holds_every_column_of_every_member_once():
    for rows, columns, members in ((1, 1, 1), (4, 4, 5), (25, 4, 3), (33, 5, 2), (81, 16, 7), (300, 3, 2)):
        problem = Slots(rows, columns, members=members)
        x = np.zeros((members, rows, 2 * columns))
        launch = slots._launch(problem.batch, x, powers=True)
        assert launch.blocks[0] * launch.teams >= members > (launch.blocks[0] - 1) * launch.teams
        assert launch.blocks[1] * launch.group >= columns > (launch.blocks[1] - 1) * launch.group
        assert launch.group <= launch.pitch
        assert launch.threads % 32 == 0
        assert launch.shared <= slots.SHARED_BYTES
        assert fits(problem.pattern, columns)


def test_systems_that_fit_in_no_block_are_refused():
    full = np.ones((100, 100))
    form = csr_array(full)
    pattern = Pattern(form.indptr.astype(np.int64), form.indices.astype(np.int64))
    assert not fits(pattern, 4)
    batch = SlotBatch(pattern, np.zeros((1, 2, 10_000), complex), 0.1, 5, 1)
    with pytest.raises(ValueError, match="no room for 100 rows with 10000 entries"):
        slots._launch(batch, np.zeros((1, 100, 8)), powers=False)


def test_shapes_that_do_not_match_are_refused():
    problem = Slots(4, 2)
    x = np.zeros((3, 4, 4))
    with pytest.raises(ValueError, match="factors must have shape"):
        slot_forward(cpu(1), problem.batch, np.zeros((1, 3)), x)
    with pytest.raises(ValueError, match="columns must have shape"):
        slot_forward(cpu(1), problem.batch, problem.factors, np.zeros((2, 4, 4)))
    with pytest.raises(ValueError, match="trajectory must have shape"):
        slot_backward(cpu(1), problem.batch, problem.factors, x, np.zeros((3, 2, 4, 4)))

"""Rows of a system as one process of several has them: here one process, on every device, against LAPACK."""

import numpy as np
import pytest
from scipy.linalg import solve_banded

from qsim.core.device.device import cpu
from qsim.core.device.links import HostLinks
from qsim.core.device.parallel import SerialComm
from qsim.tridiag.solver.shared import spans
from qsim.tridiag.solver.shared_rows import SharedRows
from qsim.tridiag.solver.systems import ArraySource, RandomSource


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def banded(source):
    a, b, c, d = source.read(0, source.n)
    return solve_banded((1, 1), np.array([np.r_[0, c[:-1]], a, np.r_[b[1:], 0]]), d.T), (a, b, c, d)


@pytest.mark.parametrize(("n", "blocks"), [(64, "auto"), (5003, "auto"), (700, 31), (33, [2, 1, 29, 1])])
def test_solution_and_its_errors_against_lapack(device, n, blocks):
    source = RandomSource(n, seed=3, dominance=1.2, columns=2)
    rows = SharedRows(device, spans(n, 1, blocks)[0], HostLinks(SerialComm(), device), source)
    rows.solve(1e-14)
    wanted, (a, b, c, d) = banded(source)
    assert not rows.doubtful
    assert rows.own.shape == (n, 2)
    assert abs(rows.own - wanted).max() < 2e-14 * abs(wanted).max()
    x = rows.own.T
    r = d - a * x
    r[:, 1:] -= b[1:] * x[:, :-1]
    r[:, :-1] -= c[:-1] * x[:, 1:]
    scale = abs(d).max() + abs(a).max() * abs(x).max()
    assert abs(rows.residual(0, n) - r).max() < 4e-16 * scale
    assert 0.0 < rows.errors.rowwise.max() < 2e-15
    assert 0.0 < rows.smallest <= 1.0


@pytest.mark.parametrize(("share", "doubtful"), [(1.0, False), (1e-7, None), (0.0, True)])
def test_small_pivots_are_refined_or_left_to_others(device, share, doubtful):
    """Of a dominant diagonal a share: what is called good has a small error of every row, and none is left for a zero."""
    rng = np.random.default_rng(2)
    b, c, d = rng.standard_normal((3, 401))
    a = np.full(401, 3.0 * share * (abs(b) + abs(c)).max())
    rows = SharedRows(device, spans(401, 1)[0], HostLinks(SerialComm(), device), ArraySource(a, b, c, d))
    rows.solve(1e-14)
    if doubtful is not None:
        assert rows.doubtful == doubtful
    assert rows.doubtful or rows.errors.rowwise.max() <= 1e-14
    assert (rows.refinements > 0 or rows.doubtful) == (share < 1.0)

"""Large grids are made part by part, on some threads: with the bits of the whole, and with its errors."""

import math

import numpy as np
import pytest

from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import CACHED, in_chunks
from qsim.tridiag.deck.potentials.cores import SoftCore
from qsim.tridiag.deck.potentials.given import FreeParticle, PotentialFormula
from qsim.tridiag.deck.potentials.morse import Morse
from qsim.tridiag.deck.potentials.oscillators import Harmonic
from qsim.tridiag.propagate import initial
from qsim.tridiag.propagate.lattice import equidistant
from qsim.tridiag.tdse import potentials

POINTS = 3 * CACHED + 1234
THREADS = pytest.mark.parametrize("threads", [1, 3])


def grid():
    return -3000.0 + 0.03 * np.arange(POINTS)


@THREADS
def test_points_are_those_of_the_whole(threads):
    np.testing.assert_array_equal(equidistant(-3000.0, 0.03, POINTS, threads), grid())


@THREADS
def test_chunks_of_any_kind(threads):
    x = grid()
    np.testing.assert_array_equal(in_chunks(np.cos, x, threads, chunk=1000), np.cos(x))
    phases = in_chunks(lambda part: np.exp(1j * part), x, threads, complex, CACHED)
    np.testing.assert_array_equal(phases, np.exp(1j * x))


@THREADS
@pytest.mark.parametrize(
    "V",
    [
        SoftCore(type="softcore", Z=1.0, a2=2.0),
        Morse(type="morse", D=0.17, beta=1.0, r0=-2995.0),
        FreeParticle(type="free"),
        PotentialFormula(type="expression", value="0.1 * exp(-x^2)"),
    ],
    ids=lambda V: V.type,
)
def test_potentials_are_those_of_the_whole(V, threads):
    x = grid()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(potentials.evaluate(V, x, threads=threads), V.V(x))
        np.testing.assert_array_equal(potentials.slope(V, x, threads=threads), V.dV(x))


@THREADS
def test_a_value_that_is_too_large_names_its_point(threads):
    with pytest.raises(InvalidInput, match="at x = -3000 bohr is too large"):
        potentials.evaluate(Harmonic(type="harmonic", omega=1000.0), grid(), threads=threads)


def test_a_packet_is_the_same_on_any_number_of_threads():
    x, width = grid(), 5.0
    alone, shared = (initial.gaussian(x, 10.0, 2.0, width, threads) for threads in (1, 4))
    whole = (2.0 * math.pi * width**2) ** -0.25 * np.exp(-(((x - 10.0) / (2.0 * width)) ** 2))
    np.testing.assert_array_equal(alone, whole * np.exp(2j * x))
    np.testing.assert_array_equal(alone, shared)
    one, other = (initial.normalised(3.0 * alone, 0.03, threads=threads) for threads in (1, 4))
    np.testing.assert_array_equal(one, other)
    assert np.vdot(one, one).real * 0.03 == pytest.approx(1.0, abs=1e-14)
    with pytest.raises(InvalidInput, match="not finite"):
        initial.normalised(np.where(np.arange(POINTS) == POINTS - 7, np.nan, alone), 0.03, threads=2)
    with pytest.raises(InvalidInput, match="vanishes"):
        initial.normalised(0.0 * alone, 0.03)

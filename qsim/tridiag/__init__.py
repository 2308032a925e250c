"""Tridiagonal systems by the N-shaped partition method, and the time-dependent Schrodinger equation with them.

``T x = d`` with a tridiagonal T is cut into blocks that are reduced independently to their joint lines; the joint lines form
a much smaller tridiagonal system, and the rest follows by substitution.  ``qsim tridiag`` solves such systems and propagates
a one-dimensional wavefunction with them (Crank-Nicolson); ``from qsim.tridiag import solve`` is the solver for scripts.

Reference: Lutsyshyn, Navarrete and Bauer, "N-shaped partition method" (Table 1, Eqs. 6-9, Appendices I and II).
"""

# `solve`, imported at its first use
from qsim.tridiag.lazy import attribute as __getattr__

__all__ = ["__getattr__"]

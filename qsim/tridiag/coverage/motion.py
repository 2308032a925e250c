"""x."""

from qsim.tridiag.coverage.systems import system as motion

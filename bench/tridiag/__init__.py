"""Cases of ``qsim tridiag``."""

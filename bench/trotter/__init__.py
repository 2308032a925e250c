"""Cases of ``qsim trotter``."""

"""Cases of ``qsim qmc``."""

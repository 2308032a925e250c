"""Cases of ``sturmian``."""

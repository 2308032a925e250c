"""Cases of the method ``qoc``."""

"""Version of qsim, in a module of its own that imports nothing."""

__all__ = ["__version__"]

__version__ = "0.2.0"

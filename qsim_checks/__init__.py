"""Random decks of qsim, and oracles of their results that are not the code under test: ``qsim check --coverage``."""

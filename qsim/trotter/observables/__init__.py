"""Observables of a state vector, and their averages over an ensemble."""

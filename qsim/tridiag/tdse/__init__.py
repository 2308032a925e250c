"""The time-dependent Schrödinger equation in one dimension: lattice, potentials, pulses, states, propagators, spectra."""

"""Two electrons: angular algebra, integrals, the Hamiltonian, eigensolver, observables, partial-wave extrapolation."""

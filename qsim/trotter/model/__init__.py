"""The Hamiltonian: couplings and fields, lattices, disorder, time profiles."""

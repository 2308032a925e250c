"""The trial wave function: orbitals, cusps, Jastrow factor, Slater determinants."""

"""Single photoionisation at any energy: cross sections, angles and resonances over many photon energies."""

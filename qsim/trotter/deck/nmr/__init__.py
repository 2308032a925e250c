"""Nuclei: isotopes, shifts and couplings with units, and free induction decays."""

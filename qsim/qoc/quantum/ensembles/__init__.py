"""Ensembles of quantum systems: members, what they come to, quantities and figures."""

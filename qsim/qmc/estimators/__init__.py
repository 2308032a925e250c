"""Estimators beside the energy: densities and pair correlations."""

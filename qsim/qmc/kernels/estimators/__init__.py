"""Histograms of walkers."""

"""Means and error bars of correlated samples, time-step extrapolation."""

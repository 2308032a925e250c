"""Optimizers of the control field: L-BFGS, Gauss-Newton, Krotov, and the line search of TRAVOLTA."""

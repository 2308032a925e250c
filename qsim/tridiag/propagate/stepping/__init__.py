"""Crank-Nicolson steps of a propagation: on one device, on several processes, and by a chosen solver."""

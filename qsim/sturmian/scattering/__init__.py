"""Collisions: the driven equation (E - H) u = s, its solution with outgoing waves, amplitudes and cross sections."""

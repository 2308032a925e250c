"""Amplitudes and cross sections of the solutions of driven equations."""

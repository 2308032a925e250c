"""Blocks of open systems: dissipation, trajectories or density matrix, steady states."""

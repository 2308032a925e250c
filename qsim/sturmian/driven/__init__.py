"""Driven equations ``(E - H) u = s`` on a complex contour: grid, operator, solvers, sources."""

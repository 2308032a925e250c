"""Kernels of an electron in a central potential: steps in both gauges, field along z or in a plane."""

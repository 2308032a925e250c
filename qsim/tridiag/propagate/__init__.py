"""``task: propagate``: the wave function of one electron on a line, by Crank-Nicolson steps."""

"""``task: floquet``: a state through cycles of constant Hamiltonians."""

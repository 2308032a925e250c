"""Tasks beside the evolution of a state, one file each."""

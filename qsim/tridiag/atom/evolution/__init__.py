"""Time steps of an atom: on the threads of a CPU, and in batches on a GPU."""

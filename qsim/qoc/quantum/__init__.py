"""Control of a quantum system given by its parts or by matrices: build, run, result and figures."""

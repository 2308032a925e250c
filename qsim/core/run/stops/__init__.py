"""Stop requests where Python hears none: beside calls of libraries, and within compiled kernels."""

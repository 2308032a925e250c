"""Monte Carlo: walkers, variational and diffusion sampling, branching, optimisation, sections in series."""

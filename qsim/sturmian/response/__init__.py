"""Response of bound states: transitions between them, polarisabilities, dispersion coefficients, sum rules."""

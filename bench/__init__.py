"""Speed of qsim, as ratios measured side by side in one run; see README.md."""

"""Quantum optimal control of vibrational states.

A molecule with potential V(x) and dipole mu(x) obeys ``i d psi/dt = [p^2/2m + V(x) - mu(x) eps(t)] psi``; ``qsim qoc`` finds
the field eps(t) that takes an initial level, superposition or set of levels to a target, maximising
``J = P - alpha integral eps^2 dt``.

References: Rodriguez-Borbon et al., Comput. Phys. Commun. 296, 109017 (2024), the method of the paper (``optimizer:
travolta``); Zhu, Botina and Rabitz, J. Chem. Phys. 108, 1953 (1998); Paramonov, Chem. Phys. 177, 169 (1993).
"""

"""Exact dynamics of spins 1/2 by Trotter-Suzuki products and their better relatives.

N spins with any couplings and fields, ``H = sum_{j<k} sum_a J^a_jk S^a_j S^a_k + sum_j sum_a h^a_j S^a_j`` with a = x, y, z and
``S = sigma / 2``; ``qsim trotter`` evolves a full state vector of 2^N amplitudes, in place, by layers that are diagonal in one
axis each, and measures magnetisations, correlators, echoes and entropies at exact times.

Site j is bit j of the basis index (site 0 is the least significant bit); bit 0 is up, bit 1 is down.  Times are in units of 1/J
with hbar = 1.

References: Dente, Bederian, Zangara and Pastawski, arXiv:1305.0036, the paper of the method; Suzuki, Phys. Lett. A 146, 319
(1990); Blanes and Moan, J. Comput. Appl. Math. 142, 313 (2002); Kahan and Li, Math. Comput. 66, 1089 (1997).
"""

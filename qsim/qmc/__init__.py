"""Variational and diffusion quantum Monte Carlo of atoms, molecules and particles in traps.

A trial function ``psi = D_up D_dn exp(-J)``, Slater determinants times a Jastrow factor, is sampled by single-electron moves
(vmc), its parameters are optimised, and the lowest energy with its nodes is projected out (dmc).

References
----------
K. P. Esler, J. Kim, D. M. Ceperley, L. Shulenburger, Comput. Sci. Eng. 14, 40 (2012).
C. J. Umrigar, M. P. Nightingale, K. J. Runge, J. Chem. Phys. 99, 2865 (1993).
"""

"""Two electrons and a nucleus in generalised Sturmian functions.

The radial functions of both electrons are expanded in Sturmian functions of any generating potential, computed on an FE-DVR
grid (or in that grid itself), their angular momenta are coupled to L, and the spin decides the exchange symmetry.  On the product
grid the repulsion of the electrons is diagonal, so that ``qsim sturmian`` finds bound states without ever forming its integrals;
the assembled route of the paper, with its integrals, stands beside it.

Reference: Colavecchia, Comput. Phys. Commun. 185, 1955 (2014), the paper of the method.
"""

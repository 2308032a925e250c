"""The papers that qsim goes back to, reproduced figure by figure and table by table: ``python bench/reproduce.py``."""

import bench.qmc.shares
import bench.qmc.throughput
import bench.qoc.dense
import bench.sturmian.integrals
import bench.sturmian.states
import bench.tridiag.literal
import bench.trotter.scaling  # noqa: F401  # the cases that items measure
from bench.papers import qmc, qoc, sturmian, tridiag, trotter  # noqa: F401  # each registers its items

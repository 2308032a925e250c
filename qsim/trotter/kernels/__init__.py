"""Kernels of ``trotter`` by subject, CUDA and CPU twins: ``layers``, ``product``, ``sectors``, ``states``."""

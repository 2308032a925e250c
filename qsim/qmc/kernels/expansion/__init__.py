"""Expansions in Slater determinants: tables of strings, minors and effective inverses."""

"""Spaces of spins above 1/2: their states as strings of digits, H there, symmetries, and what is measured."""

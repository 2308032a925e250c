"""Resonances of an atom in a static field, by complex scaling."""

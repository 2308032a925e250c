"""Figures of bound states and of one-electron bases."""

"""Diagonal layers and rotations of frames: the passes of a product formula over the state."""

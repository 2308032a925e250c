"""Collisions: cross sections of electron impact, photons and fast projectiles."""

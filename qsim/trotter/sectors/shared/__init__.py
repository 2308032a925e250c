"""Spaces whose vectors several processes share, and H in them."""

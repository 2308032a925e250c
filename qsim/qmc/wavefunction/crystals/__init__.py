"""Bloch orbitals on splines, plane waves or muffin tins, and trial functions of crystals."""

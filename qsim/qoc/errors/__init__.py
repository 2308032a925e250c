"""Errors that a run claims, the reference they are measured against, and an independent verification."""

"""Sturmian functions alone, bound or outgoing."""

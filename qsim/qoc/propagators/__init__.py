"""Propagation of level amplitudes under a field, and its exact gradient: eigenbasis or grid."""

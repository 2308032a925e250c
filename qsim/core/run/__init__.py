"""Runs: the stages of a method, the pipeline, progress, checkpoints, signals, reference decks."""

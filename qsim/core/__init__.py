"""Rooms shared by the five methods: decks, units, devices, kernels, results, checkpoints and figures.

Nothing here knows a method: the pipeline receives a method's name and imports its stages by that name.
"""

"""``task: spectrum``: lowest or highest levels of sectors."""

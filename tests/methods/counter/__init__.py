"""A method for tests of the pipeline: a chaotic map, which shows every bit that is lost."""

"""Results: files, tables and scalars, summaries, comparison, figure style."""

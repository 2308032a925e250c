"""The files of a run: where they go, who may write them, and what is written at its end."""

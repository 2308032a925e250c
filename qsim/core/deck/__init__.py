"""Decks: from the YAML file to a checked model, with every mistake at its line."""

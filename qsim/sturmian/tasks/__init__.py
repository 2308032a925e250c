"""Tasks of a deck: bound states, integral tables, one-electron bases."""

"""Goal, probability and gradients of a search."""

"""Two coordinates: their functions on a grid, their levels, and their motion on the grid."""

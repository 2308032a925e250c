"""One coordinate: its functions beyond the grid, its levels, and operators between them."""

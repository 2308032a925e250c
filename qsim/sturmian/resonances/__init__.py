"""Complex energies of doubly excited states."""

"""Sizes of the first guess and of the finer grids of error estimates, which a plan needs before any kernel is loaded."""

__all__ = ["MODEL_SIZE", "STEP_WORK", "WORK", "finer_order", "finer_size"]

# Rows of the model space of the first guess.
MODEL_SIZE = 360
# Points that an element has more on the finer grid.
MORE = 3
# The same for an element that has MANY already.
MORE_OF_MANY = 2
MANY = 10
# Operations of the products from which the states are not relaxed.
WORK = 6e10
# Operations of the first products from which there is no estimate.
STEP_WORK = 2e11


def finer_order(order: int) -> int:
    """Return the points of an element on the finer grid."""
    return order + (MORE if order < MANY else MORE_OF_MANY)


def finer_size(elements: int, order: int) -> int:
    """Return the number of functions of the finer grid."""
    return elements * (finer_order(order) - 1) - 1

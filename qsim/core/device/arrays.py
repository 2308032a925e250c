"""Types of arrays that live on a device: NumPy's on the CPU, CuPy's on a GPU.

CuPy's arrays have the methods of NumPy's that the program uses, and CuPy is not installed everywhere; so a type checker sees
NumPy's class for both, with the numbers that the array holds.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
RealArray: TypeAlias = NDArray[np.floating[Any]]  # float32 or float64, the precision of the run
ComplexArray: TypeAlias = NDArray[np.complexfloating[Any, Any]]  # complex64 or complex128
StateVector: TypeAlias = ComplexArray  # the amplitudes of a wave function
IndexArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]  # of any numbers

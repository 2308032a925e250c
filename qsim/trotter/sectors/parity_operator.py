"""H on all states, and in a sector of parity: H of N - 1 spins, and the couplings of the last one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.product.apply import apply_h
from qsim.trotter.kernels.product.exchange import exchange_tables
from qsim.trotter.kernels.product.operators import Operator, is_real, operator
from qsim.trotter.kernels.product.parity import LastSite, parity_last
from qsim.trotter.sectors.linear import SpaceOperator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.sectors.parity import ParitySector


class WholeOperator(SpaceOperator):
    """H on all states.

    Parameters
    ----------
    device : Device
    sector : WholeSpace or ParitySector
    model : Model
    """

    @property
    def needs_work(self) -> bool:  # type: ignore[override]
        """True if a product needs a vector as work space."""
        return self.others.needs_work

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real."""
        return is_real(self.model)

    @cached_property
    def others(self) -> Operator:
        """Couplings and fields of the sites that the index holds."""
        return operator(self.device, self.model)

    def product(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        factors: tuple[float, float, float],
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = a H psi + b psi + c out``, a, b, c = factors."""
        apply_h(self.device, self.others, psi, out, *factors, work=work)


class ParityOperator(WholeOperator):
    """H in a sector of parity.

    Parameters
    ----------
    device : Device
    sector : ParitySector
    model : Model
        Without fields along x and y and couplings of these with z.
    """

    sector: ParitySector

    @cached_property
    def others(self) -> Operator:
        """Couplings and fields of all sites but the last."""
        return operator(self.device, self.model.restricted(range(self.model.spins - 1)))

    @cached_property
    def last(self) -> LastSite:
        """Those of the last site."""
        model, device = self.model, self.device
        site = model.spins - 1
        # S^y S^y flips with - s_j s_k: its sign depends on whether the spins of the result are equal
        # of the two spins of the result
        same = np.array([1.0, -1.0, -1.0, 1.0])
        sites, rows = [], []
        tables = None if model.cross is None else exchange_tables(device, model.cross)
        # pairs with the last site; all others belong to H of N - 1 spins
        for j in range(site):
            row = (0.25 * (model.J[0, j, site] - same * model.J[1, j, site])).astype(np.complex128)
            if tables is not None:
                masks = device.to_host(tables.mask)
                # xy and yx couplings flip both spins as well
                for t in np.flatnonzero(masks == np.uint64(1 << j | 1 << site)):
                    row += device.to_host(tables.coefficient)[t] @ np.array([1.0, 1.0j])
            if row.any():
                sites.append(j)
                rows.append(row)
        coefficient = np.array(rows, np.complex128).reshape(-1, 4).view(np.float64).reshape(-1, 4, 2)
        return LastSite(
            self.sector.odd,
            device.asarray(np.array(sites, np.int32)),
            device.asarray(coefficient),
            device.asarray(np.ascontiguousarray(model.J[2, site, :site])),
            float(model.h[2, site]),
        )

    def product(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        factors: tuple[float, float, float],
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = a H psi + b psi + c out``, a, b, c = factors."""
        # the last site adds to `out`, which the others have set
        super().product(psi, out, factors, work)
        parity_last(self.device, self.last, psi, out, factors[0])

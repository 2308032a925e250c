"""The comb over the weights of a population, in one call: 12 ns a walker, where library calls take 80."""

import numba as nb

from qsim.qmc.kernels.common.jit import JIT

__all__ = ["BUCKETS", "settled_comb", "settled_combs"]

BITS = 11  # of a weight by which walkers are sorted at a time
BUCKETS = 1 << BITS


@nb.njit(**JIT)
def settled_comb(whole, step, rest, start, more, order, other, buckets, copies, indices):
    """Choose as many walkers as there are by teeth over their weights; those that live on keep their places.

    Parameters
    ----------
    whole : (n,) int64
        Weights, not negative, laid end to end in ascending order, equal ones in the order of the walkers.
    step, rest, start, more : int
        Tooth k stands at ``k step + start + (k rest + more) // n``.
    order, other, copies : (n,) int64
        Work space.
    buckets : (BUCKETS,) int64
        Work space.
    indices : (n,) int64
        Number of the old walker in each place.
    """
    n = whole.shape[0]
    lowest, highest = whole[0], whole[0]
    for w in range(n):
        order[w] = w
        copies[w] = 0
        lowest, highest = min(lowest, whole[w]), max(highest, whole[w])
    # Sorted by a few bits at a time, the lowest first: what was in order stays so.
    shift = 0
    while (highest - lowest) >> shift:
        buckets[:] = 0
        for w in range(n):
            buckets[((whole[w] - lowest) >> shift) & (BUCKETS - 1)] += 1
        before = 0
        for b in range(BUCKETS):
            before, buckets[b] = before + buckets[b], before
        for k in range(n):
            w = order[k]
            bucket = ((whole[w] - lowest) >> shift) & (BUCKETS - 1)
            other[buckets[bucket]] = w
            buckets[bucket] += 1
        order, other = other, order
        shift += BITS
    # Teeth ascend, too; the quotient of the last term goes on without a division.
    tooth, remainder, end, k = start + more // n, more % n, 0, 0
    for i in range(n):
        w = order[i]
        end += whole[w]
        while k < n and tooth < end:
            copies[w] += 1
            k += 1
            tooth += step
            remainder += rest
            if remainder >= n:
                remainder -= n
                tooth += 1
    # The k-th surplus copy takes the place of the k-th walker that dies.
    w = 0
    for place in range(n):
        indices[place] = place
        if copies[place]:
            continue
        while copies[w] < 2:
            w += 1
        copies[w] -= 1
        indices[place] = w


@nb.njit(**JIT)
def settled_combs(whole, edges, uniforms, unit, work, buckets, weights, indices):
    """Let groups of walkers branch, each by a comb of its own (:func:`settled_comb`).

    Parameters
    ----------
    whole : (n,) int64
        Weights as integers of 1 / `unit`.
    edges : (groups + 1,) int64
        First walker of each group, and n.
    uniforms : (groups,) float64
        Shifts of the combs, in 0 to 1.
    unit : float
    work : (3, most walkers of a group) int64
        Work space.
    buckets : (BUCKETS,) int64
        Work space.
    weights : (n,) float64, out
        The mean of its group for every walker; of a group without any weight they stay.
    indices : (n,) int64, out
        Number of the old walker in each place.
    """
    for g in range(edges.shape[0] - 1):
        first, last = edges[g], edges[g + 1]
        n = last - first
        total = 0
        for w in range(first, last):
            total += whole[w]
            indices[w] = w
        if total == 0:
            continue
        shift = min(int(uniforms[g] * float(total)), total - 1)
        settled_comb(
            whole[first:last],
            total // n,
            total % n,
            shift // n,
            shift % n,
            work[0, :n],
            work[1, :n],
            buckets,
            work[2, :n],
            indices[first:last],
        )
        for w in range(first, last):
            indices[w] += first
            weights[w] = total / unit / n

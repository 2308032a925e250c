// Population control on the device: weights as integers, the teeth of the comb, places of the copies.
//
// All sums are of integers, so they do not depend on their order: the same walkers are chosen as on a CPU, bit by bit.
//
// qsim-compile: -DREAL=double
#include "qsim.cuh"

#define THREADS 256
#define SETTLERS 1024
#define FEW 1024  // as in branching.py
#define GOLDEN 0.6180339887498949

// Weights as integers of 1/unit, those of persistent walkers (older than max_age; none if max_age < 0) at most `heaviest`.
// sums: total, weights out of range (0 to limit), persistent walkers; zero before.
extern "C" __global__ void __launch_bounds__(THREADS)
    weigh_walkers(const double* __restrict__ weights, const int64* __restrict__ ages, int64 n, int64 max_age, double heaviest, double limit,
                  double unit, int64* __restrict__ whole, int64* sums) {
    __shared__ int64 scratch[QSIM_WARP];
    const int64 i = (int64)blockIdx.x * THREADS + threadIdx.x;
    int64 count = 0, bad = 0, old = 0;
    if (i < n) {
        double w = weights[i];
        if (max_age >= 0 && ages[i] > max_age) {
            old = 1;
            w = w > heaviest ? heaviest : w;
        }
        const bool good = w >= 0 && w <= limit;  // false for NaN
        bad = !good;
        count = good ? (int64)rint(w * unit) : 0;
        whole[i] = count;
    }
    count = block_sum(count, scratch);
    bad = block_sum(bad, scratch);
    old = block_sum(old, scratch);
    if (threadIdx.x == 0) {
        atomicAdd((uint64*)sums, (uint64)count);
        if (bad) atomicAdd((uint64*)sums + 1, (uint64)bad);
        if (old) atomicAdd((uint64*)sums + 2, (uint64)old);
    }
}

// Tooth k stands at k step + start + (k rest + more) / n; it falls on the walker in whose part of the cumulated weights it lies.
// order: walkers as their weights are cumulated.
extern "C" __global__ void __launch_bounds__(THREADS)
    comb(const int64* __restrict__ order, const int64* __restrict__ cumulated, int64 walkers, int64 n, int64 step, int64 rest, int64 start,
         int64 more, int64* __restrict__ indices) {
    const int64 k = (int64)blockIdx.x * THREADS + threadIdx.x;
    if (k >= n) return;
    const int64 tooth = k * step + start + (k * rest + more) / n;
    int64 low = 0, high = walkers;  // the first with cumulated > tooth
    while (low < high) {
        const int64 middle = (low + high) / 2;
        if (cumulated[middle] > tooth) high = middle;
        else low = middle + 1;
    }
    indices[k] = order[low];
}

// Sums of flags over the threads before this one, and of all of them.
QSIM_DEVICE int64 before(int64 count, int64* scratch, int64& all) {
    const int lane = threadIdx.x % QSIM_WARP, warp = threadIdx.x / QSIM_WARP;
    int64 sum = count;
    for (int lanes = 1; lanes < QSIM_WARP; lanes *= 2) {
        const int64 other = __shfl_up_sync(QSIM_ALL_LANES, sum, lanes);
        if (lane >= lanes) sum += other;
    }
    __syncthreads();
    if (lane == QSIM_WARP - 1) scratch[warp] = sum;
    __syncthreads();
    int64 offset = 0;
    all = 0;
    for (int w = 0; w < SETTLERS / QSIM_WARP; ++w) {
        if (w == warp) offset = all;
        all += scratch[w];
    }
    return offset + sum - count;
}

// Permutes indices so that every walker that occurs keeps its place; surplus copies go, in their order, to the places of walkers
// that die.  Equal indices stand side by side.  One block.  alive, extra: (n), work space.
template <typename Index> QSIM_DEVICE void settle_indices(Index* indices, int64 n, Index* alive, Index* extra, int64* scratch) {
    const int64 part = (n + SETTLERS - 1) / SETTLERS, first = part * threadIdx.x, last = first + part < n ? first + part : n;
    for (int64 i = first; i < last; ++i) alive[i] = 0;
    __syncthreads();
    int64 count = 0, all;
    for (int64 i = first; i < last; ++i) {
        alive[indices[i]] = 1;
        count += i > 0 && indices[i] == indices[i - 1];
    }
    int64 at = before(count, scratch, all);
    for (int64 i = first; i < last; ++i)
        if (i > 0 && indices[i] == indices[i - 1]) extra[at++] = indices[i];
    __syncthreads();
    count = 0;
    for (int64 i = first; i < last; ++i) count += !alive[i];
    at = before(count, scratch, all);
    for (int64 i = first; i < last; ++i) indices[i] = alive[i] ? (Index)i : extra[at++];
}

extern "C" __global__ void __launch_bounds__(SETTLERS)
    settle(int64* indices, int64 n, int64* alive, int64* extra) {
    __shared__ int64 scratch[SETTLERS / QSIM_WARP];
    settle_indices(indices, n, alive, extra, scratch);
}

// Room of a comb in shared memory.
struct Comb {
    int64 key[FEW];
    int64 cumulated[FEW];
    int64 scratch[SETTLERS / QSIM_WARP];
    int order[FEW];
    int found[FEW];
    int sorted[FEW];
    int alive[FEW];
};

// Sorts at most FEW weights in ascending order, equal ones in that of the walkers, and adds them up; returns their sum.  One block.
QSIM_DEVICE int64 cumulate(Comb& room, const int64* __restrict__ whole, int walkers) {
    for (int i = threadIdx.x; i < walkers; i += SETTLERS) room.key[i] = whole[i];
    __syncthreads();
    for (int i = threadIdx.x; i < walkers; i += SETTLERS) {
        const int64 mine = room.key[i];
        int rank = 0;
        for (int j = 0; j < i; ++j) rank += room.key[j] <= mine;
        for (int j = i + 1; j < walkers; ++j) rank += room.key[j] < mine;
        room.order[rank] = i;
    }
    __syncthreads();
    const int part = (walkers + SETTLERS - 1) / SETTLERS, first = part * threadIdx.x, last = min(first + part, walkers);
    int64 sum = 0, all;
    for (int i = first; i < last; ++i) sum += room.key[room.order[i]];
    sum = before(sum, room.scratch, all);
    for (int i = first; i < last; ++i) room.cumulated[i] = sum += room.key[room.order[i]];
    __syncthreads();
    return all;
}

// Leaves in room.sorted the walkers under the teeth, each that lives on in its own place.  One block, after `cumulate`.
QSIM_DEVICE void choose(Comb& room, int walkers, int64 step, int64 rest, int64 start, int64 more) {
    for (int64 k = threadIdx.x; k < walkers; k += SETTLERS) {
        const int64 tooth = k * step + start + (k * rest + more) / walkers;
        int low = 0, high = walkers;  // the first with cumulated > tooth
        while (low < high) {
            const int middle = (low + high) / 2;
            if (room.cumulated[middle] > tooth) high = middle;
            else low = middle + 1;
        }
        room.found[k] = room.order[low];
    }
    __syncthreads();
    // Copies in the order of their walkers, so that most stay near: ranks then have few to send.
    for (int i = threadIdx.x; i < walkers; i += SETTLERS) {
        const int mine = room.found[i];
        int rank = 0;
        for (int j = 0; j < i; ++j) rank += room.found[j] <= mine;
        for (int j = i + 1; j < walkers; ++j) rank += room.found[j] < mine;
        room.sorted[rank] = mine;
    }
    __syncthreads();
    settle_indices(room.sorted, walkers, room.alive, room.order, room.scratch);
    __syncthreads();
}

// Ascending order, cumulated weights, teeth and places of at most FEW walkers, in one block; indices: (walkers).
extern "C" __global__ void __launch_bounds__(SETTLERS)
    settled_comb(const int64* __restrict__ whole, int walkers, int64 step, int64 rest, int64 start, int64 more, int64* __restrict__ indices) {
    __shared__ Comb room;
    cumulate(room, whole, walkers);
    choose(room, walkers, step, rest, start, more);
    for (int i = threadIdx.x; i < walkers; i += SETTLERS) indices[i] = room.sorted[i];
}

// The same of groups of walkers, a block for each: `edges` has the first walker of each and their number.  The shift of a comb is a
// multiple of the golden ratio beside one uniform number; weights: the mean of the group, out; without any weight they stay.
extern "C" __global__ void __launch_bounds__(SETTLERS)
    settled_combs(const int64* __restrict__ whole, const int64* __restrict__ edges, int64 group, double uniform, double unit,
                  double* __restrict__ weights, int64* __restrict__ indices) {
    __shared__ Comb room;
    const int64 first = edges[blockIdx.x];
    const int walkers = (int)(edges[blockIdx.x + 1] - first);
    const int64 total = cumulate(room, whole + first, walkers);
    if (total == 0) {
        for (int i = threadIdx.x; i < walkers; i += SETTLERS) indices[first + i] = first + i;
        return;
    }
    // roundings of the CPU twin: no fused operations
    double shift = __dadd_rn(uniform, __dmul_rn((double)(group + blockIdx.x), GOLDEN));
    shift = __dsub_rn(shift, floor(shift));
    const int64 start = min((int64)__dmul_rn(shift, (double)total), total - 1);
    choose(room, walkers, total / walkers, total % walkers, start / walkers, start % walkers);
    const double mean = (double)total / unit / walkers;
    for (int i = threadIdx.x; i < walkers; i += SETTLERS) {
        indices[first + i] = first + room.sorted[i];
        weights[first + i] = mean;
    }
}

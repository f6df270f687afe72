// Neighbours: pairs of points no further apart than a radius, from differences in float64.
//
// Points (n, D) stand in spatial order; cells are runs of at most 64 of them, with bounding boxes of A axes. A block of
// threads takes a cell, a thread one of its points. It tests the boxes of all cells, 64 at a time, and compares its
// points with those of the cells that no gap rules out: columns come rising. Launches are in neighbours.py, the twin is
// tile_graph in plain.py; text.py appends the entry points.

namespace pairs {

constexpr int CELL = 64;

// Counts for each point without `ends`; with them, columns and distances times `unit`.
template <typename O>
__device__ void near_pairs(const double* Z, int D, const long long* starts, const double* low, const double* high,
                           int cells, int A, double reach, double limit, int diagonal, double unit,
                           const long long* ends, long long* counts, int* indices, O* distances, double* shared) {
    const int stride = D | 1;  // of own points: threads that read the same column of an even number share banks
    double* own = shared;
    double* others = shared + CELL * stride;
    int* near = reinterpret_cast<int*>(others + CELL * D);
    const int thread = threadIdx.x;
    for (int cell = blockIdx.x; cell < cells; cell += gridDim.x) {
        const long long first = starts[cell];
        const int size = static_cast<int>(starts[cell + 1] - first);
        const long long row = first + thread;
        for (int e = thread; e < size * D; e += CELL) own[e / D * stride + e % D] = Z[first * D + e];
        long long place = ends && thread < size ? ends[row] : 0;
        for (int begin = 0; begin < cells; begin += CELL) {
            const int other = begin + thread;
            double gap2 = 0;
            for (int a = 0; a < A && other < cells; ++a) {
                const long long mine = static_cast<long long>(cell) * A + a,
                                its = static_cast<long long>(other) * A + a;
                const double gap = fmax(0.0, fmax(low[its] - high[mine], low[mine] - high[its]));
                gap2 += gap * gap;
            }
            near[thread] = other < cells && gap2 <= limit;
            __syncthreads();  // flags, and at first the own points
            for (int k = 0; k < CELL && begin + k < cells; ++k) {
                if (!near[k]) continue;
                const long long base = starts[begin + k];
                const int count = static_cast<int>(starts[begin + k + 1] - base);
                for (int e = thread; e < count * D; e += CELL) others[e] = Z[base * D + e];
                __syncthreads();
                for (int j = 0; thread < size && j < count; ++j) {
                    if (!diagonal && base + j == row) continue;
                    double squared = 0;
                    for (int c = 0; c < D; ++c) {
                        const double difference = own[thread * stride + c] - others[j * D + c];
                        squared += difference * difference;
                    }
                    if (squared > reach * reach) continue;
                    if (ends) {
                        indices[place] = static_cast<int>(base + j);
                        distances[place] = static_cast<O>(unit * sqrt(squared));
                    }
                    ++place;
                }
                __syncthreads();  // before the next cell takes the place of this one
            }
            __syncthreads();  // before the next flags
        }
        if (!ends && thread < size) counts[row] = place;
    }
}

}  // namespace pairs

#define NEAR_PAIRS(NAME, O)                                                                                            \
    extern "C" __global__ void __launch_bounds__(pairs::CELL, 8)                                                       \
        NAME(const double* Z, int D, const long long* starts, const double* low, const double* high, int cells, int A, \
             double reach, double limit, int diagonal, double unit, const long long* ends, long long* counts,          \
             int* indices, O* distances) {                                                                             \
        extern __shared__ double shared[];                                                                             \
        pairs::near_pairs<O>(Z, D, starts, low, high, cells, A, reach, limit, diagonal, unit, ends, counts, indices,   \
                             distances, shared);                                                                       \
    }

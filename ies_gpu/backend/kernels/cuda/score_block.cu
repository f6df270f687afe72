// Subset scores. For every point i with tangent basis U (m x d) and every set S of s coordinates,
//
//     R(S; i) = 1/2 log det(F'F) / prod_k |f_k|^2,    F = rows S of U,    the ratio kept between 1e-30 and 1,
//
// summed over points for each set, and the first set with the largest score for each point. 1 <= d <= 8.
//
// A block takes tiles of points and, for each tile, chunks of sets: (1) all threads fill a table of scores, points x
// sets, in shared memory; (2) some threads add up its columns while others search its rows. No atomics: block b adds to
// its own row of `partial` (grid, sets), the rows are added by the caller, and results are the same from run to run.
// The readable twin is score_block in plain.py, the launch configuration is in launch.py (score_launch).
// text.py appends the entry points.

namespace {

constexpr double FLOOR = 1e-30;
constexpr int THREADS = 256;
constexpr int FIRST_SEARCHER = 128;  // the threads before it add up columns; neither needs more than 64

// R(S; i). `basis` is one point's U by columns (D, m); coordinate t of the set is subset[t * stride].
//
// Modified Gram-Schmidt as in the plain twin, but no thread holds s rows: pass j goes over the rows of F again and
// repeats, row by row, the subtractions of the passes before it. Only their coefficients are kept.
template <typename T, int D>
__device__ double log_volume(const T* basis, int m, const int* __restrict__ subset, int stride, int s) {
    T coefficient[D][D], squared[D] = {}, ratio = 1;
#pragma unroll
    for (int j = 0; j < D; ++j) {
        T dot[D] = {};
        for (int t = 0; t < s; ++t) {
            const int coordinate = subset[static_cast<long long>(t) * stride];
            T row[D];
#pragma unroll
            for (int k = 0; k < D; ++k) row[k] = basis[k * m + coordinate];
#pragma unroll
            for (int k = 0; k < D; ++k) {
                if (j == 0) squared[k] += row[k] * row[k];
            }
#pragma unroll
            for (int i = 0; i < j; ++i) {
#pragma unroll
                for (int k = i + 1; k < D; ++k) row[k] -= coefficient[i][k] * row[i];
            }
#pragma unroll
            for (int k = j; k < D; ++k) dot[k] += row[j] * row[k];
        }
        // A column of zeros gives 0. Written so that NaN stays NaN. The first column loses nothing, exactly.
        const T left = j == 0 ? squared[0] : dot[j];
        ratio *= squared[j] == 0 ? T(0) : left / squared[j];
        // divided, not multiplied by 1 / left: that may overflow
#pragma unroll
        for (int k = j + 1; k < D; ++k) coefficient[j][k] = left == 0 ? T(0) : dot[k] / left;
    }
    double clipped = ratio;
    if (clipped < FLOOR) clipped = FLOOR;
    if (clipped > 1) clipped = 1;
    return 0.5 * log(clipped);
}

template <typename T, int D>
__device__ void score_block(const T* __restrict__ U, long long n_points, int m, const int* __restrict__ subsets, int s,
                            int n_sets, int first_set, int tile, int chunk, double* __restrict__ partial,
                            int* __restrict__ best, double* __restrict__ best_score, double* scores) {
    const int thread = threadIdx.x, stride = chunk | 1;  // odd: rows do not collide in the banks
    T* bases = reinterpret_cast<T*>(scores + tile * stride);
    double* total = partial + static_cast<long long>(blockIdx.x) * n_sets;
    const int searched = thread - FIRST_SEARCHER;  // this thread's point of the tile

    for (long long begin = blockIdx.x * static_cast<long long>(tile); begin < n_points;
         begin += gridDim.x * static_cast<long long>(tile)) {
        const int points = n_points - begin < tile ? static_cast<int>(n_points - begin) : tile;
        // by columns: threads with different sets then read different banks
        for (int e = thread; e < points * m * D; e += THREADS) {
            const int row = e / D, point = row / m;
            bases[(point * D + e % D) * m + row - point * m] = U[begin * m * D + e];
        }
        const bool searches = 0 <= searched && searched < points;
        int winner = 0;
        double highest = -1e300;
        if (searches && first_set > 0) {  // a later slice of the sets
            winner = best[begin + searched];
            highest = best_score[begin + searched];
        }
        __syncthreads();

        for (int start = 0; start < n_sets; start += chunk) {
            const int sets = min(chunk, n_sets - start);
            const int step_point = THREADS / sets, step_set = THREADS % sets;
            for (int point = thread / sets, set = thread % sets; point < points;) {
                scores[point * stride + set] =
                    log_volume<T, D>(bases + point * D * m, m, subsets + start + set, n_sets, s);
                point += step_point;
                set += step_set;
                if (set >= sets) {
                    set -= sets;
                    ++point;
                }
            }
            __syncthreads();
            if (thread < sets) {
                double sum = 0;
                for (int point = 0; point < points; ++point) sum += scores[point * stride + thread];
                total[start + thread] += sum;
            }
            if (searches) {
                for (int set = 0; set < sets; ++set) {
                    const double score = scores[searched * stride + set];
                    // the first wins a tie, and the first NaN wins over all, as in NumPy's argmax
                    if (!(score <= highest) && highest == highest) {
                        highest = score;
                        winner = first_set + start + set;
                    }
                }
            }
            __syncthreads();
        }
        if (searches) {
            best[begin + searched] = winner;
            best_score[begin + searched] = highest;
        }
    }
}

}  // namespace

// subsets: (s, n_sets), one set a column, numbers first_set .. first_set + n_sets - 1. partial (grid, n_sets): zeros.
// best and best_score are read where first_set > 0. Launch: cuda_.score_launch.
//
// d is a template argument, so that the coefficients lie in registers; a low one leaves room for more blocks.
#define SCORE_BLOCK(NAME, T, D, BLOCKS)                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                   \
        NAME(const T* U, long long n_points, int m, const int* subsets, int s, int n_sets, int first_set, int tile, \
             int chunk, double* partial, int* best, double* best_score) {                                           \
        extern __shared__ double shared_memory[];                                                                   \
        score_block<T, D>(U, n_points, m, subsets, s, n_sets, first_set, tile, chunk, partial, best, best_score,    \
                          shared_memory);                                                                           \
    }

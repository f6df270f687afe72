// Tangent bases. For every listed row i of a CSR matrix of weights w >= 0, the d leading eigenvectors U and
// eigenvalues sigma (falling, not negative) of the co-metric
//
//     H = 1/2 sum_j w_ij (y_j - y_i)(y_j - y_i)'        m x m,  1 <= m <= 64,  1 <= d <= 8,  d <= m.
//
// One block of threads a row; H never leaves shared memory. The readable twin is tangent_rows in plain.py, the launch
// configuration and the layout of the shared memory are in launch.py (tangent_launch). text.py appends the entry
// points.
//
// The eigenvectors come from Householder's tridiagonal form and implicit QL: products of reflections and rotations
// only, so that U is orthonormal for repeated and for zero eigenvalues too, and one m x m array is enough (Jacobi needs
// two, more than 48 KB in float64 at m = 64). Signs are arbitrary. A row without neighbours gives what eigh gives for
// H = 0, the last unit vectors; a row with a value that is not finite gives NaN.

namespace {

constexpr int PATCH = 4;       // H is summed in patches of 4 x 4, each in the registers of one thread
constexpr int MAX_SLICES = 8;  // threads that share a patch, each with its share of the neighbours
constexpr int WARP = 32;
constexpr int MAX_THREADS = 160;  // the 136 patches of the upper triangle at m = 64, in whole warps
// blocks of that size on a multiprocessor: the most that registers allow without spills
template <typename T> constexpr int MIN_BLOCKS = sizeof(T) == sizeof(float) ? 3 : 4;
constexpr int SWEEPS = 30;  // of QL for each eigenvalue, far more than it takes; then NaN

template <typename T> struct Precision;
template <> struct Precision<float> {
    static constexpr float epsilon = 1.1920929e-7f;
    static constexpr float negligible = 1e-28f;  // of a squared length, of a matrix of size 1: its terms may underflow
    static constexpr int exponents = 120;        // 2^e and 2^-e are both normal numbers
};
template <> struct Precision<double> {
    static constexpr double epsilon = 2.220446049250313e-16;
    static constexpr double negligible = 1e-280;
    static constexpr int exponents = 1000;
};

// From one neighbour of a tile to the next. Threads of a half warp read one column of many patches, and where patches
// are few, of several neighbours: these rows begin in banks of their own.
__device__ int tile_stride(int side) {
    return side * PATCH + (side < 6) + 3 * (side == 4);
}

// Shared memory of one row: a matrix and nine vectors of `width` values (m rounded up to whole patches, at least 16),
// then twelve int. Found by arithmetic, because pointers would take registers.
template <typename T> struct Scratch {
    T *matrix, *vectors;
    int stride, width;

    __device__ Scratch(T* pool, int m) {
        const int side = (m + PATCH - 1) / PATCH;
        width = max(side * PATCH, 16);
        stride = m | 1;  // odd: neither rows nor columns of H collide in the banks
        matrix = pool;   // differences of a tile of neighbours, then H, then its eigenvectors
        vectors = pool + max(m * stride, width * tile_stride(side));
    }
    __device__ T* vector() const { return vectors; }           // a Householder vector
    __device__ T* product() const { return vectors + width; }  // halved weights of a tile, then H times that vector
    __device__ T* diagonal() const { return vectors + 2 * width; }
    __device__ T* off_diagonal() const { return vectors + 3 * width; }
    __device__ T* factor() const { return vectors + 4 * width; }
    // rotations of two sweeps, and the columns they mix: one sweep is applied while the next is computed
    __device__ T* cosine(int turn) const { return vectors + (5 + turn) * width; }
    __device__ T* sine(int turn) const { return vectors + (7 + turn) * width; }
    __device__ int* range(int turn) const { return reinterpret_cast<int*>(vectors + 9 * width) + 2 * turn; }
    __device__ int* order() const { return range(2); }  // columns of the leading eigenvalues
};

// A patch of the co-metric over every `slices`-th neighbour of a tile, added to `sum`. A tile holds the first columns
// of all patches of a neighbour, then the second ones, and so on: neighbouring patches lie in neighbouring banks.
template <typename T>
__device__ void add_tile(const T* tile, const T* weights, int slice, int slices, int count, int side, int top, int left,
                         T (&sum)[PATCH][PATCH]) {
    for (int k = slice; k < count; k += slices) {
        const T* difference = tile + k * tile_stride(side);
        T across[PATCH];
#pragma unroll
        for (int x = 0; x < PATCH; ++x) across[x] = difference[x * side + left];
#pragma unroll
        for (int y = 0; y < PATCH; ++y) {
            const T down = weights[k] * difference[y * side + top];
#pragma unroll
            for (int x = 0; x < PATCH; ++x) sum[y][x] += down * across[x];
        }
    }
}

// H of one row into part.matrix. Tiles of `width` neighbours are staged as differences from y_i; a thread adds a patch
// of the upper triangle over its slice of the tile. Slices are added one after another, so the result is the same from
// run to run. In float32 what the sums of tiles lose is carried on (Kahan), so that it does not grow with the number of
// neighbours, as if the sums were float64, which are 64 times slower on some cards. Ends with a barrier.
template <typename T, typename W, typename O>
__device__ void sum_cometric(const Scratch<T>& part, int m, const int* __restrict__ indices,
                             const W* __restrict__ weights, const O* __restrict__ Y, long long row, long long first,
                             long long last) {
    const int thread = threadIdx.x, threads = blockDim.x;
    const int padded = (m + PATCH - 1) / PATCH * PATCH, side = padded / PATCH, patches = side * (side + 1) / 2;
    const int slices = min(threads / patches, MAX_SLICES), slice = thread / patches;
    int top = 0, left = thread % patches;  // the patch's place in the upper triangle
    while (left >= side - top) {
        left -= side - top;
        ++top;
    }
    left += top;

    T sum[PATCH][PATCH] = {}, lost[PATCH][PATCH] = {};
    T* tile = part.matrix;
    // a thread fetches one column, of every `at_once`-th neighbour; columns beyond m are zeros
    const int place = thread % padded, column = place % side * PATCH + place / side, at_once = threads / padded;
    const O centre = column < m ? Y[row * m + column] : O(0);
    __syncthreads();  // nobody reads the previous row's eigenvectors any more
    for (long long begin = first; begin < last; begin += part.width) {
        const int count = last - begin < part.width ? static_cast<int>(last - begin) : part.width;
        for (int k = thread / padded; k < count && thread < at_once * padded; k += at_once) {
            const O other = column < m ? Y[static_cast<long long>(indices[begin + k]) * m + column] : O(0);
            tile[k * tile_stride(side) + place] = static_cast<T>(other - centre);
        }
        for (int k = thread; k < count; k += threads) part.product()[k] = T(0.5) * T(weights[begin + k]);
        __syncthreads();
        if (slice < slices) {
            if constexpr (sizeof(T) == sizeof(float)) {
                T own[PATCH][PATCH] = {};
                add_tile(tile, part.product(), slice, slices, count, side, top, left, own);
#pragma unroll
                for (int e = 0; e < PATCH * PATCH; ++e) {
                    const T before = sum[e / PATCH][e % PATCH],
                            term = own[e / PATCH][e % PATCH] - lost[e / PATCH][e % PATCH];
                    const T after = before + term;
                    lost[e / PATCH][e % PATCH] = (after - before) - term;
                    sum[e / PATCH][e % PATCH] = after;
                }
            } else {
                add_tile(tile, part.product(), slice, slices, count, side, top, left, sum);
            }
        }
        __syncthreads();
    }

    T* H = part.matrix;
    for (int turn = 0; turn < slices; ++turn) {
        if (slice == turn) {
#pragma unroll
            for (int y = 0; y < PATCH; ++y) {
#pragma unroll
                for (int x = 0; x < PATCH; ++x) {
                    const int i = top * PATCH + y, j = left * PATCH + x;
                    if (i <= j && j < m) {  // one value for both triangles: exactly symmetric
                        const T value = turn == 0 ? sum[y][x] : H[i * part.stride + j] + sum[y][x];
                        H[i * part.stride + j] = value;
                        H[j * part.stride + i] = value;
                    }
                }
            }
        }
        __syncthreads();
    }
}

// Householder: part.matrix (symmetric, of size 1) becomes the orthogonal Q with Q' H Q tridiagonal.
template <typename T> __device__ void tridiagonalize(const Scratch<T>& part, int m) {
    const int thread = threadIdx.x, threads = blockDim.x;
    const int lane = thread % WARP, warp = thread / WARP, warps = threads / WARP;
    const int stride = part.stride;
    T *A = part.matrix, *v = part.vector(), *p = part.product();

    for (int k = 0; k < m - 2; ++k) {
        // Every thread sums the same few numbers: cheaper than a reduction with its barriers.
        T squared = 0;
        for (int j = k + 1; j < m; ++j) squared += A[k * stride + j] * A[k * stride + j];
        const T head = A[k * stride + k + 1];
        T pivot = head, factor = 0;  // no reflection where the column is negligible
        if (squared > Precision<T>::negligible) {
            const T length = sqrt(squared);
            pivot = head > 0 ? -length : length;
            factor = 1 / (length * (length + fabs(head)));
        }
        for (int j = k + 1 + thread; j < m; j += threads) v[j] = A[k * stride + j] - (j == k + 1 ? pivot : T(0));
        if (thread == 0) {
            part.diagonal()[k] = A[k * stride + k];
            part.off_diagonal()[k] = pivot;
            part.factor()[k] = factor;
        }
        __syncthreads();
        for (int j = k + 1 + thread; j < m; j += threads) {
            T dot = 0;
            for (int i = k + 1; i < m; ++i) dot += A[i * stride + j] * v[i];
            p[j] = factor * dot;
        }
        __syncthreads();
        T overlap = 0;
        for (int i = k + 1; i < m; ++i) overlap += v[i] * p[i];
        overlap *= factor / 2;
        for (int i = k + 1 + warp; i < m; i += warps) {
            const T vi = v[i], wi = p[i] - overlap * vi;
            for (int j = k + 1 + lane; j < m; j += WARP) {
                A[i * stride + j] -= vi * (p[j] - overlap * v[j]) + wi * v[j];
            }
        }
        for (int j = k + 1 + thread; j < m; j += threads) A[k * stride + j] = v[j];  // kept for Q
        __syncthreads();
    }
    if (thread == 0) {
        if (m > 1) {
            part.diagonal()[m - 2] = A[(m - 2) * stride + m - 2];
            part.off_diagonal()[m - 2] = A[(m - 2) * stride + m - 1];
        }
        part.diagonal()[m - 1] = A[(m - 1) * stride + m - 1];
        A[(m - 1) * stride + m - 1] = 1;
    }
    __syncthreads();

    // Q = P_0 ... P_{m-3} from the last reflection back, in place: reflection k lies in row k, and Q so far in the rows
    // and columns after k + 1. Row and column k + 1 of it are those of the identity.
    for (int k = m - 3; k >= 0; --k) {
        const int first = k + 1;
        const T* reflection = A + k * stride;
        for (int j = first + thread; j < m; j += threads) {
            T dot = j == first ? reflection[first] : T(0);
            for (int i = first + 1; i < m && j > first; ++i) dot += reflection[i] * A[i * stride + j];
            p[j] = part.factor()[k] * dot;
        }
        __syncthreads();
        for (int i = first + warp; i < m; i += warps) {
            for (int j = first + lane; j < m; j += WARP) {
                const T before = i == first || j == first ? T(i == j) : A[i * stride + j];
                A[i * stride + j] = before - reflection[i] * p[j];
            }
        }
        __syncthreads();
    }
    for (int j = thread; j < m; j += threads) {
        A[j] = T(j == 0);
        A[j * stride] = T(j == 0);
    }
}

// One sweep of implicit QL on the tridiagonal matrix, by one thread: its rotations, and the columns first .. last that
// they mix. last = 0 when all is diagonal, -1 when the sweeps are used up. `low` and `sweeps` go on from call to call.
template <typename T> __device__ void sweep(const Scratch<T>& part, int m, int turn, int& low, int& sweeps) {
    T *diagonal = part.diagonal(), *off = part.off_diagonal(), *cosine = part.cosine(turn), *sine = part.sine(turn);
    int* range = part.range(turn);
    int high = low;
    for (; low < m; ++low) {
        // The matrix has size 1: what is lost below epsilon / 16 is less than H was rounded by.
        for (high = low; high < m - 1; ++high) {
            const T scale = fabs(diagonal[high]) + fabs(diagonal[high + 1]);
            if (fabs(off[high]) <= Precision<T>::epsilon * (scale > T(0.0625) ? scale : T(0.0625))) break;
        }
        if (high > low) break;
    }
    if (low == m || sweeps-- == 0) {
        range[1] = low == m ? 0 : -1;
        return;
    }
    T g = (diagonal[low + 1] - diagonal[low]) / (2 * off[low]);
    T r = sqrt(g * g + 1);
    g = diagonal[high] - diagonal[low] + off[low] / (g + (g < 0 ? -r : r));
    T c = 1, s = 1, shift = 0;
    int i = high - 1;
    for (; i >= low; --i) {
        const T f = s * off[i], b = c * off[i];
        r = hypot(f, g);  // hypot: a rotation from squares that underflow is not orthogonal
        off[i + 1] = r;
        if (r == 0) {
            diagonal[i + 1] -= shift;
            break;
        }
        s = f / r;
        c = g / r;
        g = diagonal[i + 1] - shift;
        r = (diagonal[i] - g) * s + 2 * c * b;
        shift = s * r;
        diagonal[i + 1] = g + shift;
        g = c * r - b;
        cosine[i] = c;
        sine[i] = s;
    }
    if (i < low) {
        diagonal[low] -= shift;
        off[low] = g;
    }
    off[high] = 0;
    range[0] = i + 1;
    range[1] = high;
}

// Diagonalizes; part.matrix becomes the eigenvectors. The first warp computes a sweep while the others apply the one
// before it to the rows of Q. False, for all threads, if it does not converge. Ends with a barrier.
template <typename T> __device__ bool diagonalize(const Scratch<T>& part, int m) {
    const int thread = threadIdx.x, threads = blockDim.x;
    int low = 0, sweeps = SWEEPS * m;
    for (int turn = 0;; turn ^= 1) {
        if (thread == 0) sweep(part, m, turn, low, sweeps);
        __syncthreads();
        const T *cosine = part.cosine(turn), *sine = part.sine(turn);
        const int first = part.range(turn)[0], last = part.range(turn)[1];
        if (last <= 0) return last == 0;
        for (int row = thread - WARP; row < m; row += threads - WARP) {
            if (row < 0) break;  // the first warp
            T* q = part.matrix + row * part.stride;
            T carried = q[last];
            for (int i = last - 1; i >= first; --i) {
                const T here = q[i];
                q[i + 1] = sine[i] * here + cosine[i] * carried;
                carried = cosine[i] * here - sine[i] * carried;
            }
            q[first] = carried;
        }
    }
}

// Where H = 0 or not finite there is nothing to diagonalize.
template <typename T> __device__ void write_trivial(int m, int d, bool finite, T* U, T* sigma) {
    const T none = finite ? T(0) : T(nan(""));
    for (int e = threadIdx.x; e < m * d; e += blockDim.x) {
        U[e] = finite && e / d + e % d == m - 1 ? T(1) : none;
    }
    for (int k = threadIdx.x; k < d; k += blockDim.x) sigma[k] = none;
}

__device__ long long row_start(const void* indptr, int wide, long long row) {
    return wide ? static_cast<const long long*>(indptr)[row] : static_cast<const int*>(indptr)[row];
}

// Y, U and sigma are of type O, what lies between them of type T.
template <typename T, typename W, typename O>
__device__ void tangent_rows(const void* indptr, int wide, const int* __restrict__ indices,
                             const W* __restrict__ weights, const O* __restrict__ Y, const long long* __restrict__ rows,
                             long long n_rows, int m, int d, O* __restrict__ U, O* __restrict__ sigma, T* pool) {
    const Scratch<T> part(pool, m);
    const int thread = threadIdx.x, threads = blockDim.x;
    T* H = part.matrix;
    for (long long r = blockIdx.x; r < n_rows; r += gridDim.x) {
        const long long row = rows[r];
        const long long first = row_start(indptr, wide, row), last = row_start(indptr, wide, row + 1);
        O *U_row = U + r * m * d, *sigma_row = sigma + r * d;
        sum_cometric(part, m, indices, weights, Y, row, first, last);

        // No entry of H is larger than its largest diagonal entry; a value that is not finite shows on the diagonal.
        T largest = 0, trace = 0;
        for (int i = 0; i < m; ++i) {
            const T value = H[i * part.stride + i];
            largest = value > largest ? value : largest;
            trace += value;
        }
        const bool finite = isfinite(trace);
        if (!finite || largest == 0) {
            write_trivial(m, d, finite, U_row, sigma_row);
            continue;
        }
        // To size 1, by a power of two: in float32 squares of entries of H would underflow.
        const int limit = Precision<T>::exponents;
        const int exponent = max(-limit, min(limit, static_cast<int>(ilogb(largest))));
        const T shrink = scalbn(T(1), -exponent), grow = scalbn(T(1), exponent);
        __syncthreads();
        for (int e = thread; e < m * part.stride; e += threads) H[e] *= shrink;
        __syncthreads();

        tridiagonalize(part, m);
        if (!diagonalize(part, m)) {
            write_trivial(m, d, false, U_row, sigma_row);
            continue;
        }
        for (int c = thread; c < m; c += threads) {
            int rank = 0;
            for (int other = 0; other < m; ++other) {
                const T difference = part.diagonal()[other] - part.diagonal()[c];
                rank += difference > 0 || (difference == 0 && other < c);
            }
            if (rank < d) part.order()[rank] = c;
        }
        __syncthreads();
        for (int e = thread; e < m * d; e += threads) U_row[e] = H[e / d * part.stride + part.order()[e % d]];
        for (int k = thread; k < d; k += threads) {
            const T value = part.diagonal()[part.order()[k]];
            sigma_row[k] = value > 0 ? value * grow : O(0);
        }
    }
}

}  // namespace

// indptr: int32, or int64 where `wide` is 1. Launch: cuda_.tangent_launch. Weights may be stored in the other precision
// (_w32, _w64): a copy of them would be as large as the graph. Coordinates in float64 may be worked on in float32.
#define TANGENT_ROWS(NAME, T, W, O)                                                                                 \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS, MIN_BLOCKS<T>)                                        \
        NAME(const void* indptr, int wide, const int* indices, const W* weights, const O* Y, const long long* rows, \
             long long n_rows, int m, int d, O* U, O* sigma) {                                                      \
        extern __shared__ double shared_memory[];                                                                   \
        tangent_rows<T, W, O>(indptr, wide, indices, weights, Y, rows, n_rows, m, d, U, sigma,                      \
                              reinterpret_cast<T*>(shared_memory));                                                 \
    }

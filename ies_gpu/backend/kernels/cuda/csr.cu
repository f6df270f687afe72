// Kernels over the rows of a CSR matrix: int32 columns, sorted within a row; indptr int32, or int64 where `wide` is 1.
// Blocks of vectors are row-major with k columns. Every sum has a fixed order, so results are the same from run to run.
//
// The readable twins are in plain.py, the launches in csr.py. Macros at the end make an entry
// point for one choice of types; csr.py appends the line that does, so that NVRTC compiles one at a time.

namespace rows {

constexpr int WARP = 32;
constexpr int THREADS = 128;

__device__ long long row_start(const void* indptr, int wide, long long row) {
    return wide ? static_cast<const long long*>(indptr)[row] : static_cast<const int*>(indptr)[row];
}

// What a product becomes before it is written.
enum Epilogue { PLAIN, ADDED, SHIFTED, BOTH_SIDES };

// The column of a thread. A group of `width` threads takes a row; those that are too few for another group have none.
__device__ int column_of(int first, int width, int k) {
    return threadIdx.x / width < THREADS / width ? first + threadIdx.x % width : k;
}

// The sum of each group's column over the groups of a block, in their order, as one row of `partial`.
__device__ void write_partial(double* sums, double own, int width, int c, int k, double* partial) {
    sums[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x < width && c < k) {
        double total = 0;
        for (int other = threadIdx.x; other < THREADS; other += width) total += sums[other];
        partial[static_cast<long long>(blockIdx.x) * k + c] = total;
    }
    __syncthreads();  // before the next columns overwrite the sums
}

// A V with one column, or diag(left) A diag(right) V: a warp takes a row, its lanes share the entries.
template <typename M, typename T>
__device__ void vector_product(const void* indptr, int wide, const int* indices, const M* data, const T* V,
                               long long n_rows, const T* right, const T* left, T* out, double* sums) {
    const int lane = threadIdx.x % WARP, own = threadIdx.x / WARP;
    constexpr int ROWS = THREADS / WARP;
    for (long long begin = static_cast<long long>(blockIdx.x) * ROWS; begin < n_rows;
         begin += static_cast<long long>(gridDim.x) * ROWS) {
        const long long row = begin + own;
        const long long last = row < n_rows ? row_start(indptr, wide, row + 1) : 0;
        double sum = 0;
        if (row < n_rows) {
            for (long long e = row_start(indptr, wide, row) + lane; e < last; e += WARP) {
                const double factor = right ? static_cast<double>(right[indices[e]]) : 1.0;
                sum += static_cast<double>(data[e]) * (factor * static_cast<double>(V[indices[e]]));
            }
        }
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (lane == 0 && row < n_rows) {
            double total = 0;
            for (int other = 0; other < WARP; ++other) total += sums[threadIdx.x + other];
            out[row] = static_cast<T>(left ? static_cast<double>(left[row]) * total : total);
        }
        __syncthreads();  // before the next rows overwrite the sums
    }
}

// PLAIN: out = A V.  ADDED: out = R + factor * A V.  SHIFTED: out = factor * R - A V, and R . out in `partial`.
// A group of `width` threads takes a row, each of them a column.
template <typename M, typename T>
__device__ void product(const void* indptr, int wide, const int* indices, const M* data, const T* V, long long n_rows,
                        int k, int width, int epilogue, const T* R, const T* factor, T* out, double* partial,
                        double* sums) {
    const int groups = THREADS / width, group = threadIdx.x / width;
    for (int first = 0; first < k; first += width) {
        const int c = column_of(first, width, k);
        double dot = 0;
        for (long long row = static_cast<long long>(blockIdx.x) * groups + group; c < k && row < n_rows;
             row += static_cast<long long>(gridDim.x) * groups) {
            const long long last = row_start(indptr, wide, row + 1), place = row * k + c;
            T sum = 0;
            for (long long e = row_start(indptr, wide, row); e < last; ++e) {
                sum += static_cast<T>(data[e]) * V[static_cast<long long>(indices[e]) * k + c];
            }
            if (epilogue == ADDED) sum = R[place] + sum * factor[c];
            if (epilogue == SHIFTED) {
                sum = factor[c] * R[place] - sum;
                dot += static_cast<double>(R[place]) * static_cast<double>(sum);
            }
            out[place] = sum;
        }
        if (epilogue == SHIFTED) write_partial(sums, dot, width, c, k, partial);
    }
}

// Entries of diag(left) A diag(right); weights that are not wanted on the diagonal become 0.
template <typename M, typename O>
__device__ void scaled(const void* indptr, int wide, const int* indices, const M* data, const double* left,
                       const double* right, long long n_rows, O* out) {
    const int lane = threadIdx.x % WARP;
    const long long step = static_cast<long long>(gridDim.x) * (THREADS / WARP);
    for (long long row = static_cast<long long>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP; row < n_rows;
         row += step) {
        const long long last = row_start(indptr, wide, row + 1);
        const double factor = left[row];
        for (long long e = row_start(indptr, wide, row) + lane; e < last; e += WARP) {
            out[e] = static_cast<O>(static_cast<double>(data[e]) * (factor * right[indices[e]]));
        }
    }
}

// The smallest label among a row's own and those that a positive entry joins it to, also for the row whose number its
// label is. `out` begins as the labels; rows that find nothing smaller leave it alone. A warp takes a row.
template <typename M>
__device__ void smallest_label(const void* indptr, int wide, const int* indices, const M* data, const int* labels,
                               long long n_rows, int* out, int* found) {
    const int lane = threadIdx.x % WARP;
    constexpr int ROWS = THREADS / WARP;
    for (long long begin = static_cast<long long>(blockIdx.x) * ROWS; begin < n_rows;
         begin += static_cast<long long>(gridDim.x) * ROWS) {
        const long long row = begin + threadIdx.x / WARP;
        const long long last = row < n_rows ? row_start(indptr, wide, row + 1) : 0;
        int least = row < n_rows ? labels[row] : 0;
        if (row < n_rows) {
            for (long long e = row_start(indptr, wide, row) + lane; e < last; e += WARP) {
                if (data[e] > 0) least = min(least, labels[indices[e]]);
            }
        }
        found[threadIdx.x] = least;
        __syncthreads();
        if (lane == 0 && row < n_rows) {
            for (int other = 1; other < WARP; ++other) least = min(least, found[threadIdx.x + other]);
            if (least < labels[row]) {
                atomicMin(&out[row], least);
                atomicMin(&out[labels[row]], least);
            }
        }
        __syncthreads();  // before the next rows overwrite what was found
    }
}

// How many entries the lanes of a warp before this one have; `all` is how many they have together.
__device__ int entries_before(int own, int* found, int* all) {
    const int lane = threadIdx.x % WARP, first = threadIdx.x - lane;
    found[threadIdx.x] = own;
    __syncthreads();
    int before = 0;
    *all = 0;
    for (int other = 0; other < WARP; ++other) {
        if (other < lane) before += found[first + other];
        *all += found[first + other];
    }
    __syncthreads();  // before the next counts overwrite these
    return before;
}

// A P0 as CSR, P0 with the entry weights[j] at (j, labels[j]) and labels rising: runs of a sorted row become one entry.
// Without `ends` the entries of each row are counted, with them they are written. A warp takes a row, a lane the runs
// that begin in its share of it.
__device__ void merge_columns(const void* indptr, int wide, const int* indices, const float* data, const int* labels,
                              const float* weights, long long n_rows, const long long* ends, long long* counts,
                              int* out_indices, float* out_data, int* found) {
    const int lane = threadIdx.x % WARP;
    constexpr int ROWS = THREADS / WARP;
    for (long long begin = static_cast<long long>(blockIdx.x) * ROWS; begin < n_rows;
         begin += static_cast<long long>(gridDim.x) * ROWS) {
        const long long row = begin + threadIdx.x / WARP;
        const long long first = row < n_rows ? row_start(indptr, wide, row) : 0;
        const long long last = row < n_rows ? row_start(indptr, wide, row + 1) : 0;
        const long long own = first + (last - first) * lane / WARP, next = first + (last - first) * (lane + 1) / WARP;
        int runs = 0, all;
        for (long long e = own; e < next; ++e) runs += e == first || labels[indices[e]] != labels[indices[e - 1]];
        long long place = entries_before(runs, found, &all);
        if (row >= n_rows) continue;
        if (!ends) {
            if (lane == 0) counts[row] = all;
            continue;
        }
        place += ends[row];
        long long e = own;
        while (e < next) {
            const int label = labels[indices[e]];
            const bool begins = e == first || labels[indices[e - 1]] != label;
            double sum = 0;
            for (; e < last && labels[indices[e]] == label; ++e) {
                sum += static_cast<double>(data[e]) * static_cast<double>(weights[indices[e]]);
            }
            if (begins) out_indices[place] = label, out_data[place++] = static_cast<float>(sum);
        }
    }
}

// The first entry of a row whose column is not below `column`.
__device__ long long lower_bound(const int* indices, long long first, long long last, int column) {
    while (first < last) {
        const long long middle = first + (last - first) / 2;
        if (indices[middle] < column) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}

// Weighted rows from `first` to `last` as one, from a column on and below another: how many entries that are. They are
// written where there is a place for them.
__device__ int merge_range(const void* indptr, int wide, const int* indices, const float* data, const float* weights,
                           long long first, long long last, int column, int below, int* out_indices, float* out_data) {
    for (int count = 0;; ++count, ++column) {
        int next = below;
        double sum = 0;
        for (long long row = first; row < last; ++row) {
            const long long end = row_start(indptr, wide, row + 1);
            const long long e = lower_bound(indices, row_start(indptr, wide, row), end, column);
            if (e == end || indices[e] > next || indices[e] >= below) continue;
            if (indices[e] != next) sum = 0;
            next = indices[e];
            sum += static_cast<double>(weights[row]) * static_cast<double>(data[e]);
        }
        if (next == below) return count;
        if (out_indices) out_indices[count] = next, out_data[count] = static_cast<float>(sum);
        column = next;
    }
}

// P0' A as CSR: the rows of each cell, which begin at `starts`, become one. A warp takes a cell, a lane the columns
// from one entry of its longest row to another: rows of a cell are much alike, so the shares are.
__device__ void merge_rows(const void* indptr, int wide, const int* indices, const float* data, const long long* starts,
                           const float* weights, long long n_cells, const long long* ends, long long* counts,
                           int* out_indices, float* out_data, int* found) {
    const int lane = threadIdx.x % WARP;
    constexpr int CELLS = THREADS / WARP;
    for (long long begin = static_cast<long long>(blockIdx.x) * CELLS; begin < n_cells;
         begin += static_cast<long long>(gridDim.x) * CELLS) {
        const long long cell = begin + threadIdx.x / WARP;
        const long long first = cell < n_cells ? starts[cell] : 0, last = cell < n_cells ? starts[cell + 1] : 0;
        long long from = 0, length = 0;
        for (long long row = first; row < last; ++row) {
            const long long start = row_start(indptr, wide, row), entries = row_start(indptr, wide, row + 1) - start;
            if (entries > length) from = start, length = entries;
        }
        const int column = lane == 0 || length == 0 ? 0 : indices[from + length * lane / WARP];
        const int below = lane == WARP - 1 || length == 0 ? 0x7fffffff : indices[from + length * (lane + 1) / WARP];
        int own = 0, all;
        if (length)
            own = merge_range(indptr, wide, indices, data, weights, first, last, column, below, nullptr, nullptr);
        const long long place = entries_before(own, found, &all);
        if (cell >= n_cells) continue;
        if (!ends) {
            if (lane == 0) counts[cell] = all;
        } else if (own) {
            merge_range(indptr, wide, indices, data, weights, first, last, column, below,
                        out_indices + ends[cell] + place, out_data + ends[cell] + place);
        }
    }
}

// P0' R: a thread takes a cell and a column.
__device__ void restricted(const long long* starts, const float* weights, const float* R, long long n_cells, int k,
                           float* out) {
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long e = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; e < n_cells * k; e += step) {
        const long long cell = e / k;
        double sum = 0;
        for (long long row = starts[cell]; row < starts[cell + 1]; ++row) {
            sum += static_cast<double>(weights[row]) * static_cast<double>(R[row * k + e % k]);
        }
        out[e] = static_cast<float>(sum);
    }
}

// One step of conjugate gradients: Z += a P, R -= a image, a = square / curvature, and R . R in `partial`.
__device__ void descend(float* Z, float* R, const float* P, const float* image, const double* square,
                        const double* curvature, long long n_rows, int k, int width, double* partial, double* sums) {
    const int groups = THREADS / width, group = threadIdx.x / width;
    for (int first = 0; first < k; first += width) {
        const int c = column_of(first, width, k);
        const float step = c < k && curvature[c] > 0 ? static_cast<float>(square[c] / curvature[c]) : 0.0f;
        double dot = 0;
        for (long long row = static_cast<long long>(blockIdx.x) * groups + group; c < k && row < n_rows;
             row += static_cast<long long>(gridDim.x) * groups) {
            const long long place = row * k + c;
            Z[place] += step * P[place];
            const float left = R[place] - step * image[place];
            R[place] = left;
            dot += static_cast<double>(left) * static_cast<double>(left);
        }
        write_partial(sums, dot, width, c, k, partial);
    }
}

// P = R + (left / square) P.
__device__ void turn(const float* R, float* P, const double* left, const double* square, long long size, int k) {
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long e = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; e < size; e += step) {
        const int c = static_cast<int>(e % k);
        P[e] = R[e] + static_cast<float>(left[c] / square[c]) * P[e];
    }
}

// Sums (k,) of the rows of A * B, or of A alone, as partial sums of each block.
template <typename T>
__device__ void column_products(const T* A, const T* B, long long n_rows, int k, int width, double* partial,
                                double* sums) {
    const int groups = THREADS / width, group = threadIdx.x / width;
    for (int first = 0; first < k; first += width) {
        const int c = column_of(first, width, k);
        double dot = 0;
        for (long long row = static_cast<long long>(blockIdx.x) * groups + group; c < k && row < n_rows;
             row += static_cast<long long>(gridDim.x) * groups) {
            const long long place = row * k + c;
            dot += static_cast<double>(A[place]) * (B ? static_cast<double>(B[place]) : 1.0);
        }
        write_partial(sums, dot, width, c, k, partial);
    }
}

// The sums of the columns of `partial` (rows, k), and `plus`: a block of threads takes a column.
__device__ void totals(const double* partial, long long rows, int k, double plus, double* out, double* sums) {
    for (int c = blockIdx.x; c < k; c += gridDim.x) {
        double own = 0;
        for (long long row = threadIdx.x; row < rows; row += THREADS) own += partial[row * k + c];
        sums[threadIdx.x] = own;
        __syncthreads();
        if (threadIdx.x == 0) {
            double total = plus;
            for (int other = 0; other < THREADS; ++other) total += sums[other];
            out[c] = total;
        }
        __syncthreads();  // before the next column overwrites the sums
    }
}

// left = V less k rows times their coefficients, and its squared length as partial sums of each block.
__device__ void beside(const double* V, const double* rows, const double* along, int k, long long size, double* left,
                       double* partial, double* sums) {
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    double dot = 0;
    for (long long e = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; e < size; e += step) {
        double image = 0;
        for (int j = 0; j < k; ++j) image += along[j] * rows[j * size + e];
        const double value = V[e] - image;
        left[e] = value;
        dot += value * value;
    }
    write_partial(sums, dot, 1, 0, 1, partial);
}

// V by its length. Every block adds up the partial sums, in the same order: cheaper than a launch for it.
__device__ void unit(const double* partial, int parts, long long size, double* V, double* square, double* sums) {
    double total = 0;
    for (int part = threadIdx.x; part < parts; part += THREADS) total += partial[part];
    sums[threadIdx.x] = total;
    __syncthreads();
    total = 0;
    for (int other = 0; other < THREADS; ++other) total += sums[other];
    if (blockIdx.x == 0 && threadIdx.x == 0) *square = total;
    const double length = sqrt(total > 1e-300 ? total : 1e-300);
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long e = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; e < size; e += step) V[e] /= length;
}

}  // namespace rows

#define BEGIN(NAME, ...) extern "C" __global__ void __launch_bounds__(rows::THREADS) NAME(__VA_ARGS__)
#define MATRIX(M) const void *indptr, int wide, const int *indices, const M *data
#define PASSED indptr, wide, indices, data

#define PRODUCT(NAME, M, T)                                                                                           \
    BEGIN(NAME, MATRIX(M), const T* V, long long n_rows, int k, int width, int epilogue, const T* R, const T* factor, \
          T* out, double* partial) {                                                                                  \
        extern __shared__ double sums[];                                                                              \
        if (k == 1 && (epilogue == rows::PLAIN || epilogue == rows::BOTH_SIDES)) {                                    \
            rows::vector_product<M, T>(PASSED, V, n_rows, R, factor, out, sums);                                      \
        } else {                                                                                                      \
            rows::product<M, T>(PASSED, V, n_rows, k, width, epilogue, R, factor, out, partial, sums);                \
        }                                                                                                             \
    }
#define SCALED(NAME, M, O)                                                                      \
    BEGIN(NAME, MATRIX(M), const double* left, const double* right, long long n_rows, O* out) { \
        rows::scaled<M, O>(PASSED, left, right, n_rows, out);                                   \
    }
#define SMALLEST_LABEL(NAME, M)                                             \
    BEGIN(NAME, MATRIX(M), const int* labels, long long n_rows, int* out) { \
        extern __shared__ int found[];                                      \
        rows::smallest_label<M>(PASSED, labels, n_rows, out, found);        \
    }
#define MERGE_COLUMNS(NAME)                                                                                      \
    BEGIN(NAME, MATRIX(float), const int* labels, const float* weights, long long n_rows, const long long* ends, \
          long long* counts, int* out_indices, float* out_data) {                                                \
        extern __shared__ int found[];                                                                           \
        rows::merge_columns(PASSED, labels, weights, n_rows, ends, counts, out_indices, out_data, found);        \
    }
#define MERGE_ROWS(NAME)                                                                                \
    BEGIN(NAME, MATRIX(float), const long long* starts, const float* weights, long long n_cells,        \
          const long long* ends, long long* counts, int* out_indices, float* out_data) {                \
        extern __shared__ int found[];                                                                  \
        rows::merge_rows(PASSED, starts, weights, n_cells, ends, counts, out_indices, out_data, found); \
    }
#define RESTRICTED(NAME)                                                                                               \
    BEGIN(NAME, const long long* starts, const float* weights, const float* R, long long n_cells, int k, float* out) { \
        rows::restricted(starts, weights, R, n_cells, k, out);                                                         \
    }
#define DESCEND(NAME)                                                                                                  \
    BEGIN(NAME, float* Z, float* R, const float* P, const float* image, const double* square, const double* curvature, \
          long long n_rows, int k, int width, double* partial) {                                                       \
        extern __shared__ double sums[];                                                                               \
        rows::descend(Z, R, P, image, square, curvature, n_rows, k, width, partial, sums);                             \
    }
#define TURN(NAME)                                                                                           \
    BEGIN(NAME, const float* R, float* P, const double* left, const double* square, long long size, int k) { \
        rows::turn(R, P, left, square, size, k);                                                             \
    }
#define COLUMN_PRODUCTS(NAME, T)                                                               \
    BEGIN(NAME, const T* A, const T* B, long long n_rows, int k, int width, double* partial) { \
        extern __shared__ double sums[];                                                       \
        rows::column_products<T>(A, B, n_rows, k, width, partial, sums);                       \
    }
#define TOTALS(NAME)                                                                        \
    BEGIN(NAME, const double* partial, long long n_rows, int k, double plus, double* out) { \
        extern __shared__ double sums[];                                                    \
        rows::totals(partial, n_rows, k, plus, out, sums);                                  \
    }
#define BESIDE(NAME)                                                                                           \
    BEGIN(NAME, const double* V, const double* rows, const double* along, int k, long long size, double* left, \
          double* partial) {                                                                                   \
        extern __shared__ double sums[];                                                                       \
        rows::beside(V, rows, along, k, size, left, partial, sums);                                            \
    }
#define UNIT(NAME)                                                                             \
    BEGIN(NAME, const double* partial, int parts, long long size, double* V, double* square) { \
        extern __shared__ double sums[];                                                       \
        rows::unit(partial, parts, size, V, square, sums);                                     \
    }

// A CSR matrix stored in float32 times vectors in float64, summed in float64:
//
//     out = A V        A: n_rows rows,  V and out: k columns, C order.
//
// cuSPARSE wants one type for all three, so CuPy first copies the whole matrix to float64: 24 bytes moved for each
// entry instead of 8, and 8 more held. The readable twin is spmm in plain.py, the launch configuration is in launch.py
// (product_launch). Compiles alone, without -D.
//
// A warp takes a row. With one column its lanes share the entries, and their sums are added in a fixed order; with
// several columns each lane has its own and goes over all entries. Either way the result is the same from run to run.

namespace {

constexpr int WARP = 32;
constexpr int ROWS = 4;  // of one block of threads at a time

__device__ long long row_start(const void* indptr, int wide, long long row) {
    return wide ? static_cast<const long long*>(indptr)[row] : static_cast<const int*>(indptr)[row];
}

}  // namespace

// indptr: int32, or int64 where `wide` is 1.
extern "C" __global__ void __launch_bounds__(ROWS* WARP)
    csr_product_f32(const void* indptr, int wide, const int* __restrict__ indices, const float* __restrict__ data,
                    const double* __restrict__ V, long long n_rows, int k, double* __restrict__ out) {
    extern __shared__ double sums[];  // one for each thread
    const int lane = threadIdx.x % WARP, own = threadIdx.x / WARP;
    for (long long begin = static_cast<long long>(blockIdx.x) * ROWS; begin < n_rows;
         begin += static_cast<long long>(gridDim.x) * ROWS) {
        const long long row = begin + own;
        const long long first = row < n_rows ? row_start(indptr, wide, row) : 0;
        const long long last = row < n_rows ? row_start(indptr, wide, row + 1) : 0;
        if (k == 1) {
            double sum = 0;
            for (long long e = first + lane; e < last; e += WARP) sum += static_cast<double>(data[e]) * V[indices[e]];
            sums[threadIdx.x] = sum;
            __syncthreads();
            if (lane == 0 && row < n_rows) {
                double total = 0;
                for (int other = 0; other < WARP; ++other) total += sums[threadIdx.x + other];
                out[row] = total;
            }
            __syncthreads();  // before the next rows overwrite the sums
        } else {
            for (int c = lane; c < k && row < n_rows; c += WARP) {
                double sum = 0;
                for (long long e = first; e < last; ++e) {
                    sum += static_cast<double>(data[e]) * V[static_cast<long long>(indices[e]) * k + c];
                }
                out[row * k + c] = sum;
            }
        }
    }
}

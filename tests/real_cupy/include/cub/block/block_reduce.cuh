// what the texts that CuPy writes for reductions ask of CUB; of our own, with the sum of a block in the order of its
// threads
#pragma once
namespace cub {
template <typename T, int THREADS> struct BlockReduce {
    struct TempStorage {
        alignas(T) unsigned char bytes[THREADS * sizeof(T)];
    };
    TempStorage& storage;
    explicit BlockReduce(TempStorage& given) : storage(given) {}
    template <int ITEMS, typename Op> T Reduce(T (&items)[ITEMS], Op op) {
        T* all = reinterpret_cast<T*>(storage.bytes);
        T own = items[0];
        for (int i = 1; i < ITEMS; ++i) own = op(own, items[i]);
        all[threadIdx.x] = own;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 1; i < THREADS; ++i) own = op(own, all[i]);
        }
        __syncthreads();
        return own;
    }
};
}  // namespace cub

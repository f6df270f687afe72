// what the texts that CuPy writes for reductions ask of CUB, of our own
#pragma once
namespace cub {
enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT };
template <typename T, int THREADS, int ITEMS, BlockLoadAlgorithm> struct BlockLoad {
    struct TempStorage {};
    explicit BlockLoad(TempStorage&) {}
    template <typename From> void Load(const From* from, T (&items)[ITEMS], int valid, T otherwise) {
        for (int i = 0; i < ITEMS; ++i) {
            const int place = int(threadIdx.x) * ITEMS + i;
            items[i] = place < valid ? T(from[place]) : otherwise;
        }
    }
};
}  // namespace cub

// CUDA text on the CPU. The threads of a block run one after another on one stack. A thread that has to wait at a barrier
// keeps that stack (it is a fiber), and the next thread begins on another. Blocks run one after another.
//
// Emulated: indices, shared memory (the dynamic one filled with NaN and watched at its end), __syncthreads, collectives of
// a warp, atomics. Between two barriers threads run one at a time, in an order that the caller chooses: a missing barrier
// shows as a wrong result under at least one of the orders. Linux on x86-64, GCC or Clang.
#pragma once
#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>  // not <cmath>: the float and double overloads, in the global namespace as in CUDA
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using std::max;
using std::min;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __constant__ static
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __CUDACC_RTC__
#define __CUDACC__
#define __CUDA_ARCH__ 800
#define CUDART_VERSION 12090

namespace emulator {

constexpr unsigned char POISON = 0xFF;  // NaN as float and as double, -1 as int
constexpr unsigned WARP = 32;
enum State { RUNNING, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE };

struct Index {
    unsigned x = 1, y = 1, z = 1;
};

struct Thread {
    Index id;
    State state = RUNNING;
    int line = 0;       // of the barrier at which it waits
    unsigned mask = 0;  // lanes that a barrier of a warp waits for
    unsigned number = 0;
    int fiber = -1;
};

// in runtime.cpp, which is compiled once for all texts
extern Thread* current;
extern Index block, block_size, grid_size;
extern std::vector<unsigned char> shared;
extern uint64_t lanes[1024 / WARP][WARP];
void wait(State state, int line, unsigned mask = 0);
int run_grid(void (*body)(void**), const unsigned* sizes, size_t shared_bytes, void** values, int schedule, unsigned seed,
             int strict, int skip);

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<std::remove_reference_t<A>>*>(values[I])...);
}

template <auto KERNEL, typename... A>
int launch(void (*)(A...), const unsigned* sizes, size_t shared_bytes, void** values, int schedule, unsigned seed,
           int strict, int skip) {
    const auto body = [](void** v) { call<A...>(KERNEL, v, std::index_sequence_for<A...>{}); };
    return run_grid(body, sizes, shared_bytes, values, schedule, seed, strict, skip);
}

// bytes of each parameter
template <typename... A>
int widths(void (*)(A...), int* out) {
    int count = 0;
    ((out[count++] = int(sizeof(std::remove_reference_t<A>))), ...);
    return count;
}

inline unsigned lane() { return current->number % WARP; }

template <typename T>
T from_lane(unsigned mask, T value, int source) {
    static_assert(sizeof(T) <= 8, "wider values go through shared memory");
    auto& warp = lanes[current->number / WARP];
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    warp[lane()] = bits;
    wait(AT_WARP_BARRIER, 0, mask);
    bits = warp[source & (WARP - 1)];
    wait(AT_WARP_BARRIER, 0, mask);
    memcpy(&value, &bits, sizeof(T));
    return value;
}

template <class To, class From>
To bits_as(From value) {
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}

template <class A, class B>
using Mixed = std::enable_if_t<!std::is_same<A, B>::value && std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
                               std::common_type_t<A, B>>;

}  // namespace emulator

struct dim3 {
    unsigned x, y, z;
};
#define threadIdx (emulator::current->id)
#define blockIdx (emulator::block)
#define blockDim (emulator::block_size)
#define gridDim (emulator::grid_size)
#define warpSize 32
#define __syncthreads() emulator::wait(emulator::AT_BLOCK_BARRIER, __LINE__)
static inline void __syncwarp(unsigned mask = ~0u) { emulator::wait(emulator::AT_WARP_BARRIER, 0, mask); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

template <class T> T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
    return emulator::from_lane(mask, v, int((emulator::lane() & ~(width - 1)) | (source & (width - 1))));
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    const unsigned own = emulator::lane(), source = own + by;
    return emulator::from_lane(mask, v, int((source & ~(width - 1)) == (own & ~(width - 1)) ? source : own));
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    const int own = int(emulator::lane()), source = own - int(by);
    return emulator::from_lane(mask, v, source >= (own & ~(width - 1)) ? source : own);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int with, int = 32) {
    return emulator::from_lane(mask, v, int(emulator::lane()) ^ with);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    auto& warp = emulator::lanes[emulator::current->number / emulator::WARP];
    warp[emulator::lane()] = predicate != 0;
    __syncwarp(mask);
    unsigned result = 0;
    for (unsigned l = 0; l < emulator::WARP; ++l) {
        if (mask >> l & 1) result |= unsigned(warp[l] & 1) << l;
    }
    __syncwarp(mask);
    return result;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return (__ballot_sync(mask, predicate) & mask) == mask; }

#define EMULATED_ATOMIC(name, result)               \
    template <class T, class U> T name(T* p, U u) { \
        const T old = *p, v = T(u);                 \
        *p = T(result);                             \
        return old;                                 \
    }
EMULATED_ATOMIC(atomicAdd, old + v)
EMULATED_ATOMIC(atomicSub, old - v)
EMULATED_ATOMIC(atomicMax, v > old ? v : old)
EMULATED_ATOMIC(atomicMin, v < old ? v : old)
EMULATED_ATOMIC(atomicOr, old | v)
EMULATED_ATOMIC(atomicAnd, old & v)
EMULATED_ATOMIC(atomicXor, old ^ v)
EMULATED_ATOMIC(atomicExch, v)
template <class T, class U, class V> T atomicCAS(T* p, U compare, V value) {
    const T old = *p;
    if (old == T(compare)) *p = T(value);
    return old;
}

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
template <class T> T __ldg(const T* p) { return *p; }
static inline float __int_as_float(int x) { return emulator::bits_as<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulator::bits_as<float>(x); }
static inline int __float_as_int(float x) { return emulator::bits_as<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulator::bits_as<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return emulator::bits_as<double>(x); }
static inline long long __double_as_longlong(double x) { return emulator::bits_as<long long>(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
template <class A, class B> emulator::Mixed<A, B> min(A a, B b) {
    using C = emulator::Mixed<A, B>;
    return C(b) < C(a) ? C(b) : C(a);
}
template <class A, class B> emulator::Mixed<A, B> max(A a, B b) {
    using C = emulator::Mixed<A, B>;
    return C(a) < C(b) ? C(b) : C(a);
}

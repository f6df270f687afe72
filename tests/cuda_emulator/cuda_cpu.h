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
#include <memory>
#include <random>
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

// void emulator_switch(void** from, void* to): save this fiber's stack pointer, go on with another's.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, . - emulator_switch
)");

namespace emulator {

enum Schedule { FORWARD, REVERSE, RANDOM };
enum Outcome { FINISHED, DEADLOCK, SHARED_OVERRUN };
enum State { RUNNING, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE };

struct Index {
    unsigned x = 1, y = 1, z = 1;
};

constexpr size_t STACK_BYTES = 128 << 10;
constexpr size_t GUARD_BYTES = 4096;
constexpr unsigned char POISON = 0xFF;  // NaN as float and as double, -1 as int
constexpr unsigned WARP = 32;

struct Thread {
    Index id;
    State state = RUNNING;
    int line = 0;       // of the barrier at which it waits
    unsigned mask = 0;  // lanes that a barrier of a warp waits for
    unsigned number = 0;
    int fiber = -1;
};

struct Fiber {
    void* stack_pointer = nullptr;
    std::unique_ptr<unsigned char[]> stack;
};

// inline: one of each in a process, whatever number of libraries has them
inline std::vector<Thread> threads;
inline std::vector<unsigned> order;
inline std::vector<Fiber> fibers;
inline std::vector<int> idle;
inline unsigned started = 0;
inline Thread* current = nullptr;
inline int fiber = -1;
inline void* scheduler = nullptr;
inline void (*body)(void**) = nullptr;
inline void** arguments = nullptr;
inline Index block, block_size, grid_size;
inline std::vector<unsigned char> shared;
inline uint64_t lanes[1024 / WARP][WARP];
inline int skipped_line = 0;

inline void wait(State state, int line, unsigned mask = 0) {
    if (line && line == skipped_line) return;
    Thread* self = current;
    self->state = state;
    self->line = line;
    self->mask = mask;
    self->fiber = fiber;
    emulator_switch(&fibers[fiber].stack_pointer, scheduler);
    current = self;
}

inline void fiber_main() {
    for (;;) {
        while (started < order.size()) {
            current = &threads[order[started++]];
            body(arguments);
            current->state = DONE;
        }
        idle.push_back(fiber);
        emulator_switch(&fibers[fiber].stack_pointer, scheduler);
    }
}

inline int idle_fiber() {
    if (idle.empty()) {
        Fiber made;
        made.stack.reset(new unsigned char[STACK_BYTES]);
        const auto end = reinterpret_cast<uintptr_t>(made.stack.get() + STACK_BYTES);
        auto** top = reinterpret_cast<void**>((end & ~uintptr_t(15)) - 8);  // as after a call, for aligned locals
        *--top = reinterpret_cast<void*>(fiber_main);
        for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
        made.stack_pointer = top;
        fibers.push_back(std::move(made));
        return static_cast<int>(fibers.size()) - 1;
    }
    const int number = idle.back();
    idle.pop_back();
    return number;
}

inline void resume(int number) {
    fiber = number;
    emulator_switch(&scheduler, fibers[number].stack_pointer);
}

// Threads whose barrier lets them go on: those of warps that are complete, else all of the block. A strict block wants all
// of its threads at the same barrier: that one has ended may work on hardware, the programming model does not allow it.
inline std::vector<unsigned> released(bool strict) {
    std::vector<unsigned> ready;
    const unsigned count = threads.size();
    unsigned done = 0, waiting = 0;
    bool together = true;
    for (Thread& t : threads) {
        done += t.state == DONE;
        waiting += t.state == AT_BLOCK_BARRIER;
        together = together && t.line == threads.front().line && t.state == threads.front().state;
    }
    for (unsigned first = 0; first < count; first += WARP) {
        unsigned arrived = 0, wanted = 0, alive = 0;
        for (unsigned i = first; i < std::min(first + WARP, count); ++i) {
            if (threads[i].state != DONE) alive |= 1u << (i - first);
            if (threads[i].state != AT_WARP_BARRIER) continue;
            arrived |= 1u << (i - first);
            wanted |= threads[i].mask;
        }
        if (!arrived || (wanted & alive) != (arrived & wanted)) continue;
        for (unsigned i = first; i < std::min(first + WARP, count); ++i) {
            if (threads[i].state == AT_WARP_BARRIER) ready.push_back(i);
        }
    }
    if (!ready.empty() || done + waiting != count || (strict && !together)) return ready;
    for (Thread& t : threads) {
        if (t.state == AT_BLOCK_BARRIER) ready.push_back(t.number);
    }
    return ready;
}

inline Outcome run_block(Schedule schedule, std::mt19937& random, bool strict) {
    const unsigned count = block_size.x * block_size.y * block_size.z;
    threads.assign(count, Thread());
    order.resize(count);
    for (unsigned i = 0; i < count; ++i) {
        order[i] = schedule == REVERSE ? count - 1 - i : i;
        threads[i].number = i;
        threads[i].id = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
    }
    if (schedule == RANDOM) std::shuffle(order.begin(), order.end(), random);
    std::fill(shared.begin(), shared.end(), POISON);
    started = 0;
    while (started < count) resume(idle_fiber());
    for (;;) {
        if (std::all_of(threads.begin(), threads.end(), [](Thread& t) { return t.state == DONE; })) return FINISHED;
        auto ready = released(strict);
        if (ready.empty()) {
            fibers.clear();  // some are in the middle of a thread
            idle.clear();
            return DEADLOCK;
        }
        if (schedule == REVERSE) std::reverse(ready.begin(), ready.end());
        if (schedule == RANDOM) std::shuffle(ready.begin(), ready.end(), random);
        for (unsigned i : ready) threads[i].state = RUNNING;
        for (unsigned i : ready) {
            current = &threads[i];
            resume(threads[i].fiber);
        }
    }
}

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<std::remove_reference_t<A>>*>(values[I])...);
}

// Blocks come in the order of the schedule too: no block may rely on another.
template <auto KERNEL, typename... A>
int launch(void (*)(A...), const unsigned* sizes, size_t shared_bytes, void** values, int schedule, unsigned seed,
           int strict, int skip) {
    std::mt19937 random(seed);
    grid_size = {sizes[0], sizes[1], sizes[2]};
    block_size = {sizes[3], sizes[4], sizes[5]};
    shared.resize(shared_bytes + GUARD_BYTES);
    arguments = values;
    skipped_line = skip;
    body = [](void** v) { call<A...>(KERNEL, v, std::index_sequence_for<A...>{}); };
    const size_t blocks = size_t(sizes[0]) * sizes[1] * sizes[2];
    std::vector<size_t> numbers;
    if (schedule == RANDOM) {
        for (size_t i = 0; i < blocks; ++i) numbers.push_back(i);
        std::shuffle(numbers.begin(), numbers.end(), random);
    }
    for (size_t i = 0; i < blocks; ++i) {
        const size_t b = schedule == RANDOM ? numbers[i] : schedule == REVERSE ? blocks - 1 - i : i;
        block = {unsigned(b % sizes[0]), unsigned(b / sizes[0] % sizes[1]), unsigned(b / sizes[0] / sizes[1])};
        if (run_block(static_cast<Schedule>(schedule), random, strict) != FINISHED) return DEADLOCK;
        for (size_t k = shared_bytes; k < shared.size(); ++k) {
            if (shared[k] != POISON) return SHARED_OVERRUN;
        }
    }
    return FINISHED;
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

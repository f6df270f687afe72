// One CUDA kernel on the CPU. Every CUDA thread is a fiber with a stack of its own; blocks run one after another; at a
// barrier a fiber gives way until all fibers of its block have come to the same barrier.
//
// Emulated: threadIdx, blockIdx, blockDim, gridDim, dynamic shared memory (filled with NaN, watched at its end) and
// __syncthreads. Static shared memory, warp collectives and atomics are left out because no kernel here uses them.
// Between two barriers fibers run one at a time, in an order that the caller chooses: a missing barrier shows as a
// wrong result under at least one of the orders. Linux on x86-64, GCC or Clang.
#pragma once
#include <math.h>  // not <cmath>: the float and double overloads, in the global namespace as in CUDA

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

using std::max;
using std::min;

#define __global__
#define __device__
#define __launch_bounds__(...)

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

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

constexpr std::size_t STACK_BYTES = 64 << 10;
constexpr std::size_t GUARD_BYTES = 4096;
constexpr unsigned char POISON = 0xFF;  // NaN as float and as double, -1 as int
constexpr int RUNNING = 0, DONE = -1;   // else the line of the barrier at which the fiber waits

struct Fiber {
    void* stack_pointer = nullptr;
    std::vector<unsigned char> stack = std::vector<unsigned char>(STACK_BYTES);
    int state = RUNNING;
    Index thread;
};

inline std::vector<Fiber> fibers;
inline std::vector<unsigned char> shared;
inline Fiber* current = nullptr;
inline void* scheduler = nullptr;
inline void (*body)(void**) = nullptr;
inline void** arguments = nullptr;
inline Index block, block_size, grid_size;
inline int skipped_line = 0;

inline void give_way() { emulator_switch(&current->stack_pointer, scheduler); }

inline void barrier(int line) {
    if (line == skipped_line) return;
    current->state = line;
    give_way();
}

inline void fiber_main() {
    body(arguments);
    current->state = DONE;
    give_way();
    __builtin_trap();  // a finished fiber is never resumed
}

inline void reset(Fiber& fiber, unsigned number) {
    fiber.state = RUNNING;
    fiber.thread = {number, 0, 0};
    const auto end = reinterpret_cast<std::uintptr_t>(fiber.stack.data() + fiber.stack.size());
    auto** top = reinterpret_cast<void**>((end & ~std::uintptr_t(15)) - 8);  // as after a call, for aligned locals
    *--top = reinterpret_cast<void*>(fiber_main);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    fiber.stack_pointer = top;
}

// Runs until every fiber is done. A fiber that is done, or waits elsewhere, while another waits is a deadlock: real
// hardware may get away with it, the programming model does not allow it.
inline Outcome run_block(Schedule schedule, std::mt19937& random) {
    std::vector<unsigned> order(fibers.size());
    for (unsigned i = 0; i < order.size(); ++i) {
        order[i] = schedule == REVERSE ? order.size() - 1 - i : i;
        reset(fibers[i], i);
    }
    std::fill(shared.begin(), shared.end(), POISON);
    for (;;) {
        if (schedule == RANDOM) std::shuffle(order.begin(), order.end(), random);
        for (unsigned i : order) {
            current = &fibers[i];
            emulator_switch(&scheduler, current->stack_pointer);
        }
        const int line = fibers.front().state;
        for (Fiber& fiber : fibers) {
            if (fiber.state != line) return DEADLOCK;
        }
        if (line == DONE) return FINISHED;
        for (Fiber& fiber : fibers) fiber.state = RUNNING;
    }
}

template <typename... A, std::size_t... I>
void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(values[I])...);
}

// Blocks come in the order of the schedule too: no block may rely on another.
template <auto KERNEL, typename... A>
Outcome launch(void (*)(A...), unsigned blocks, unsigned threads, std::size_t shared_bytes, void** values,
               Schedule schedule, unsigned seed, int skip) {
    std::mt19937 random(seed);
    fibers.resize(threads);
    shared.resize(shared_bytes + GUARD_BYTES);
    grid_size = {blocks, 1, 1};
    block_size = {threads, 1, 1};
    arguments = values;
    skipped_line = skip;
    body = [](void** v) { call<A...>(KERNEL, v, std::index_sequence_for<A...>{}); };
    std::vector<unsigned> order(blocks);
    for (unsigned i = 0; i < blocks; ++i) order[i] = schedule == REVERSE ? blocks - 1 - i : i;
    if (schedule == RANDOM) std::shuffle(order.begin(), order.end(), random);
    for (unsigned number : order) {
        block = {number, 0, 0};
        const Outcome outcome = run_block(schedule, random);
        if (outcome != FINISHED) return outcome;
        for (std::size_t i = shared_bytes; i < shared.size(); ++i) {
            if (shared[i] != POISON) return SHARED_OVERRUN;
        }
    }
    return FINISHED;
}

}  // namespace emulator

#define threadIdx (emulator::current->thread)
#define blockIdx (emulator::block)
#define blockDim (emulator::block_size)
#define gridDim (emulator::grid_size)
#define __syncthreads() emulator::barrier(__LINE__)

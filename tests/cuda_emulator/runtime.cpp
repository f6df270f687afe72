// Runs the threads of a kernel as fibers, for all texts that cuda_cpu.h was compiled with.
#include <memory>
#include <random>

#include "cuda_cpu.h"

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

constexpr size_t STACK_BYTES = 128 << 10;
constexpr size_t GUARD_BYTES = 4096;

struct Fiber {
    void* stack_pointer = nullptr;
    std::unique_ptr<unsigned char[]> stack;
};

Thread* current = nullptr;
Index block, block_size, grid_size;
std::vector<unsigned char> shared;
uint64_t lanes[1024 / WARP][WARP];
static std::vector<Thread> threads;
static std::vector<unsigned> order;
static std::vector<Fiber> fibers;
static std::vector<int> idle;
static unsigned started = 0;
static int fiber = -1;
static void* scheduler = nullptr;
static void (*body)(void**) = nullptr;
static void** arguments = nullptr;
static int skipped_line = 0;

void wait(State state, int line, unsigned mask) {
    if (line && line == skipped_line) return;
    Thread* self = current;
    self->state = state;
    self->line = line;
    self->mask = mask;
    self->fiber = fiber;
    emulator_switch(&fibers[fiber].stack_pointer, scheduler);
    current = self;
}

static void fiber_main() {
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

static int idle_fiber() {
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

static void resume(int number) {
    fiber = number;
    emulator_switch(&scheduler, fibers[number].stack_pointer);
}

// Threads whose barrier lets them go on: those of warps that are complete, else all of the block. A strict block wants all
// of its threads at the same barrier: that one has ended may work on hardware, the programming model does not allow it.
static std::vector<unsigned> released(bool strict) {
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

static Outcome run_block(Schedule schedule, std::mt19937& random, bool strict) {
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

// Blocks come in the order of the schedule too: no block may rely on another.
int run_grid(void (*kernel)(void**), const unsigned* sizes, size_t shared_bytes, void** values, int schedule, unsigned seed,
             int strict, int skip) {
    std::mt19937 random(seed);
    grid_size = {sizes[0], sizes[1], sizes[2]};
    block_size = {sizes[3], sizes[4], sizes[5]};
    shared.resize(shared_bytes + GUARD_BYTES);
    arguments = values;
    skipped_line = skip;
    body = kernel;
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

}  // namespace emulator

// What a test says to the fake driver, beside the driver's own functions: which machine it is, and
// what goes wrong. Found by dlsym in the library that the plugin is given as its driver.
#ifndef TUTTI_TESTS_GPU_FAKES_FAKE_DRIVER_H_
#define TUTTI_TESTS_GPU_FAKES_FAKE_DRIVER_H_

#include <cstdint>

namespace tutti::fake {

struct Machine {
  int32_t devices = 2;
  uint64_t memory_bytes = 64 << 20;  // of each device
  int32_t driver_version = 13000;
  int32_t compute_major = 9;
  int32_t init_outcome = 0;  // of cuInit

  // Faults. Counted from 1, from the moment that the machine is set; 0: never.
  int32_t fail_allocation = 0;  // this allocation of device memory finds no memory
  int32_t fail_work = 0;        // this piece of work on any stream fails on the device (700)
  int32_t not_ready = 0;        // so many queries say "not ready" though all is done

  // Links that are missing: bit p of apart[d] says that device d cannot reach device p.
  uint8_t apart[8] = {};
};

// Ends what runs, forgets all memory, streams and contexts, and is another machine. Nothing of the
// one before may be in use.
using SetMachine = void (*)(const Machine* machine);
inline constexpr const char* kSetMachine = "tutti_fake_set_machine";

// The allocation of device memory that finds none, counted from 1 and from now on; 0: none. Nobody
// may be allocating meanwhile.
using FailAllocation = void (*)(int32_t which);
inline constexpr const char* kFailAllocation = "tutti_fake_fail_allocation";

// Allocations, streams, events and retained contexts that are there: 0 after a test that gives back
// what it took.
using CountThings = int32_t (*)();
inline constexpr const char* kCountThings = "tutti_fake_count_things";

// What was done since the machine was set.
struct Done {
  int64_t launches = 0;    // of kernels
  int64_t copies_in = 0;   // from the host to a device
  int64_t between = 0;     // copies from one device to another
  int64_t peer_reads = 0;  // launches that have touched memory of another device
};
using CountDone = void (*)(Done* done);
inline constexpr const char* kCountDone = "tutti_fake_count_done";

}  // namespace tutti::fake

#endif  // TUTTI_TESTS_GPU_FAKES_FAKE_DRIVER_H_

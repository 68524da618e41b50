// What a test says to the fake NCCL, beside NCCL's own functions. Found by dlsym in the library
// that the plugin is given as its NCCL.
#ifndef TUTTI_TESTS_GPU_FAKES_FAKE_NCCL_H_
#define TUTTI_TESTS_GPU_FAKES_FAKE_NCCL_H_

#include <cstdint>

namespace tutti::fake {

// What goes wrong from now on; 0: nothing.
struct NcclFaults {
  int32_t version = 0;          // is reported instead of the library's own
  int32_t in_progress = 0;      // so many questions are answered "in progress" after every call
  int32_t error = 0;            // the outcome that becomes the asynchronous error of a communicator
  int32_t error_rank = -1;      // ... of this rank; -1: all of them
  int32_t error_operation = 0;  // ... from this operation on, counted from 1; 0: when it is made
  int32_t refuse = 0;           // the outcome of every operation that is called
  int32_t abort_hangs = 0;      // 1: until it is 0 again
};
using SetNcclFaults = void (*)(const NcclFaults* faults);
inline constexpr const char* kSetNcclFaults = "tutti_fake_nccl_set_faults";

// Communicators, registrations and memory that are there: 0 after a test that gives back what it
// took.
using CountNcclThings = int32_t (*)();
inline constexpr const char* kCountNcclThings = "tutti_fake_nccl_count_things";

// The most communicators that were aborted in one group since this was asked last.
using MostAborted = int32_t (*)();
inline constexpr const char* kMostAborted = "tutti_fake_nccl_most_aborted";

// What is registered with communicators now.
using CountRegistered = int32_t (*)();
inline constexpr const char* kCountRegistered = "tutti_fake_nccl_count_registered";

// ---- Ranks that are processes of their own ----
//
// With this variable they meet in the folder that it names, empty at first, by its files. Such
// ranks have the collective operations, and init and abort; no transfers, splits and the like.
inline constexpr const char* kFolderVariable = "TUTTI_FAKE_NCCL_FOLDER";
// "R N": rank R ends by SIGKILL in the middle of its N-th operation, counted from 0: when all other
// ranks are in it and wait.
inline constexpr const char* kKilledVariable = "TUTTI_FAKE_NCCL_KILLED";

// The key of the encryption; "" where none was set.
using NcclKey = const char* (*)();
inline constexpr const char* kNcclKey = "tutti_fake_nccl_key";

// ---- What the fake driver does for it ----

// Runs `run` on a stream, in its order; what it returns is the device's error.
using AddStreamWork = int32_t (*)(void* stream, int32_t (*run)(void* data), void* data);
inline constexpr const char* kAddStreamWork = "tutti_fake_add_work";
// Where the bytes of device memory are; null for memory that nobody has.
using RealMemory = void* (*)(const void* memory);
inline constexpr const char* kRealMemory = "tutti_fake_real_memory";
// Of the current context; -1 without one.
using CurrentOrdinal = int32_t (*)();
inline constexpr const char* kCurrentOrdinal = "tutti_fake_current_device";

}  // namespace tutti::fake

#endif  // TUTTI_TESTS_GPU_FAKES_FAKE_NCCL_H_

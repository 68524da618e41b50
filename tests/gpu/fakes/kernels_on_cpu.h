// The kernels as plain C++: stands before a kernel source and defines what CUDA would. A kernel is
// a function of its parameters; the fake driver calls it once for each thread of each block.
#ifndef TUTTI_TESTS_GPU_FAKES_KERNELS_ON_CPU_H_
#define TUTTI_TESTS_GPU_FAKES_KERNELS_ON_CPU_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::fake {

struct KernelPosition {
  unsigned x = 0;
};

// A kernel that the fake driver knows by its name.
struct KernelEntry {
  KernelEntry(const char* kernel_name, size_t parameter_bytes, void (*function)(const void*));
  const char* const name;
  const size_t bytes;
  void (*const run)(const void* parameters);
  const KernelEntry* const next;
};

// Where the bytes of device memory lie that the host sees at `address`; other addresses stay as
// they are. Device memory that nobody has allocated fails the launch.
void* Translate(const void* address);

}  // namespace tutti::fake

inline thread_local tutti::fake::KernelPosition threadIdx, blockIdx, blockDim, gridDim;

#define TUTTI_DEVICE inline
#define TUTTI_UNROLL
#define TUTTI_KERNEL(name, Params) \
  static void name(const Params& p); \
  static const ::tutti::fake::KernelEntry entry_of_##name( \
      #name, sizeof(Params), \
      [](const void* parameters) { name(*static_cast<const Params*>(parameters)); }); \
  static void name(const Params& p)

namespace tutti::cuda {

template <class T>
T* Memory(void* address) {
  return static_cast<T*>(fake::Translate(address));
}
template <class T>
const T* Memory(const void* address) {
  return static_cast<const T*>(fake::Translate(address));
}

inline void AddAtomically(uint64_t* counter, uint64_t value) {
  __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

}  // namespace tutti::cuda

#endif  // TUTTI_TESTS_GPU_FAKES_KERNELS_ON_CPU_H_

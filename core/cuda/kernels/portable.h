// The words that kernels are written in, so that they are CUDA to nvcc and plain C++ to the tests,
// whose header (included before this one) has defined them for the CPU.
#ifndef TUTTI_CORE_CUDA_KERNELS_PORTABLE_H_
#define TUTTI_CORE_CUDA_KERNELS_PORTABLE_H_

#include <stdint.h>

#if defined(__CUDACC__)
#define TUTTI_DEVICE __device__ __forceinline__
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_KERNEL(name, Params)                                              \
  extern "C" __global__ void __launch_bounds__(::tutti::cuda::kThreads)         \
      name(const __grid_constant__ Params p)

namespace tutti::cuda {

// Device memory as a kernel may touch it.
template <class T>
TUTTI_DEVICE T* Memory(void* address) {
  return static_cast<T*>(address);
}
template <class T>
TUTTI_DEVICE const T* Memory(const void* address) {
  return static_cast<const T*>(address);
}

TUTTI_DEVICE void AddAtomically(uint64_t* counter, uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(counter), value);
}

}  // namespace tutti::cuda
#endif

namespace tutti::cuda {

TUTTI_DEVICE uint64_t GlobalThread() {
  return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
TUTTI_DEVICE uint64_t AllThreads() { return static_cast<uint64_t>(gridDim.x) * blockDim.x; }

// What one thread reads or writes at once where addresses allow it.
struct alignas(16) Sixteen {
  uint32_t words[4];
};

}  // namespace tutti::cuda

#endif  // TUTTI_CORE_CUDA_KERNELS_PORTABLE_H_

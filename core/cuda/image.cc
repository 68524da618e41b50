// The machine code of the kernels, as nvcc wrote it (TUTTI_CUDA_IMAGES names the folder), inside
// this library. Built without a toolkit there is none.
#include "core/cuda/plugin.h"

#if defined(TUTTI_CUDA_IMAGES)
// X(name)
#define TUTTI_CUDA_EACH_IMAGE(X) X(reduce) X(move) X(convert)

#define TUTTI_CUDA_EMBED(name) \
  asm(".section .rodata\n.balign 64\n" \
      ".globl tutti_cuda_image_" #name "\n.hidden tutti_cuda_image_" #name "\n" \
      ".globl tutti_cuda_image_" #name "_end\n.hidden tutti_cuda_image_" #name "_end\n" \
      "tutti_cuda_image_" #name ":\n.incbin \"" TUTTI_CUDA_IMAGES "/" #name ".fatbin\"\n" \
      "tutti_cuda_image_" #name "_end:\n.byte 0\n.previous\n"); \
  extern "C" const unsigned char tutti_cuda_image_##name[]; \
  extern "C" const unsigned char tutti_cuda_image_##name##_end[];
TUTTI_CUDA_EACH_IMAGE(TUTTI_CUDA_EMBED)
#endif

namespace tutti::cuda {

std::vector<KernelImage> KernelImages() {
  std::vector<KernelImage> images;
#if defined(TUTTI_CUDA_IMAGES)
#define TUTTI_CUDA_ADD(name) \
  images.push_back({tutti_cuda_image_##name, \
                    static_cast<size_t>(tutti_cuda_image_##name##_end - tutti_cuda_image_##name)});
  TUTTI_CUDA_EACH_IMAGE(TUTTI_CUDA_ADD)
#undef TUTTI_CUDA_ADD
#endif
  return images;
}

#if defined(TUTTI_CUDA_TOOLKIT_VERSION)
int32_t KernelToolkit() { return TUTTI_CUDA_TOOLKIT_VERSION; }
#else
int32_t KernelToolkit() { return 0; }
#endif

}  // namespace tutti::cuda

// Kernels: which one a call takes, what it is given, and in how many blocks. Whatever a kernel
// could only answer with a fault, an address that is not aligned for one, is refused here.
#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <string_view>

#include "core/cuda/kernels/launch.h"
#include "core/cuda/plugin.h"

namespace tutti::cuda {
namespace {

// By TUTTI_DTYPE_*, from 1 on.
struct TypeInfo {
  const char* name;
  const char* text;
  uint32_t bytes;
  uint32_t parts;          // 2: a complex number
  const char* as_bits;     // the unsigned integer that sums and products of integers take
};
constexpr TypeInfo kTypes[] = {
    {nullptr, "", 0, 0, nullptr},
    {"bool", "bool", 1, 1, nullptr},
    {"i8", "int8", 1, 1, "u8"},
    {"i16", "int16", 2, 1, "u16"},
    {"i32", "int32", 4, 1, "u32"},
    {"i64", "int64", 8, 1, "u64"},
    {"u8", "uint8", 1, 1, "u8"},
    {"u16", "uint16", 2, 1, "u16"},
    {"u32", "uint32", 4, 1, "u32"},
    {"u64", "uint64", 8, 1, "u64"},
    {"f16", "float16", 2, 1, nullptr},
    {"bf16", "bfloat16", 2, 1, nullptr},
    {"f32", "float32", 4, 1, nullptr},
    {"f64", "float64", 8, 1, nullptr},
    {"c64", "complex64", 8, 2, nullptr},
    {"c128", "complex128", 16, 2, nullptr},
};
constexpr int32_t kBool = 1, kFloat16 = 10, kComplex64 = 14;
constexpr int32_t kMeans = 2, kMins = 3, kMaxes = 4, kProducts = 5, kBits = 6, kLastOp = 8;
constexpr const char* kOps[] = {"", "sum", "mean", "min", "max", "prod", "band", "bor", "bxor"};

const TypeInfo* FindType(int32_t dtype) {
  return dtype >= 1 && dtype < static_cast<int32_t>(std::size(kTypes)) ? &kTypes[dtype] : nullptr;
}

}  // namespace

uint32_t ItemBytes(int32_t dtype) {
  const TypeInfo* const type = FindType(dtype);
  return type != nullptr ? type->bytes : 0;
}
std::string DTypeText(int32_t dtype) {
  const TypeInfo* const type = FindType(dtype);
  return type != nullptr ? type->text : "dtype " + std::to_string(dtype);
}
const char* ReductionText(int32_t op) { return op >= 1 && op <= kLastOp ? kOps[op] : "?"; }

namespace {

tutti_status* RefuseType(const tutti_plugin* plugin, const char* what, int32_t dtype) {
  const TypeInfo* const type = FindType(dtype);
  return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                      std::string(what) + ": a GPU has no kernel for " +
                          (type != nullptr ? type->text : "dtype " + std::to_string(dtype)) +
                          "; numbers are taken");
}

tutti_status* CheckAligned(const tutti_plugin* plugin, const char* what, const void* memory,
                           uint64_t bytes) {
  if (AddressOf(memory) % bytes == 0) return nullptr;
  return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                      std::string(what) + ": an address is no multiple of the " +
                          std::to_string(bytes) + " bytes of an element; copy the tensor first");
}

// Loads what the library has for the device; with its mutex held, and its context current.
tutti_status* LoadKernels(tutti_plugin* plugin, int32_t index, Device* device) {
  if (!device->modules.empty()) return nullptr;
  if (device->no_kernels.empty() && HasKernels(plugin->driver, *device, &device->no_kernels)) {
    for (const KernelImage& image : KernelImages()) {
      Module module = nullptr;
      const Outcome outcome = plugin->driver.ModuleLoadData(&module, image.data);
      if (outcome != kSuccess) {
        for (const Module loaded : device->modules) plugin->driver.ModuleUnload(loaded);
        device->modules.clear();
        if (outcome != kNoBinaryForDevice) return plugin->FailAs(outcome, index, "its kernels");
        device->no_kernels = plugin->driver.Describe(outcome);
        break;
      }
      device->modules.push_back(module);
    }
  }
  if (!device->modules.empty()) return nullptr;
  return plugin->Fail(TUTTI_FAILED_PRECONDITION,
                      DeviceName(index) + ": there are no kernels for it: " + device->no_kernels);
}

// By the name, which says in which image it is.
tutti_status* FindKernel(tutti_plugin* plugin, int32_t index, std::string_view name,
                         Function* out) {
  Device& device = *plugin->devices[static_cast<size_t>(index)];
  const std::lock_guard lock(device.mutex);
  const auto known = device.functions.find(name);
  if (known != device.functions.end()) {
    *out = known->second;
    return nullptr;
  }
  TUTTI_CUDA_RETURN_IF(LoadKernels(plugin, index, &device));
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  const size_t image =
      begins("tutti_pack") || begins("tutti_unpack") || begins("tutti_strided")  ? kMoveImage
      : begins("tutti_cast") || begins("tutti_scale") || begins("tutti_check") ? kConvertImage
                                                                                 : kReduceImage;
  const std::string text(name);
  TUTTI_CUDA_CALL(plugin, index,
                  plugin->driver.ModuleGetFunction(out, device.modules[image], text.c_str()), text);
  device.functions.emplace(text, *out);
  return nullptr;
}

template <class Params>
tutti_status* Launch(tutti_plugin_stream* stream, std::string_view name, Params* params,
                     uint64_t threads) {
  return LaunchBlocks(stream, name, params, (threads + kThreads - 1) / kThreads);
}

std::string Named(const char* what, const char* type) {
  return std::string("tutti_") + what + "_" + type;
}

}  // namespace

tutti_status* LaunchBlocks(tutti_plugin_stream* stream, std::string_view name, void* params,
                           uint64_t blocks) {
  tutti_plugin* const plugin = stream->plugin;
  Current current(plugin, stream->device);
  TUTTI_CUDA_RETURN_IF(current.TakeError());
  Function function = nullptr;
  TUTTI_CUDA_RETURN_IF(FindKernel(plugin, stream->device, name, &function));
  const Device& device = *plugin->devices[static_cast<size_t>(stream->device)];
  const uint64_t most = static_cast<uint64_t>(device.multiprocessors) * 32;
  const auto grid = static_cast<uint32_t>(std::min(blocks, most));
  void* arguments[] = {params};
  TUTTI_CUDA_CALL(plugin, stream->device,
                  plugin->driver.LaunchKernel(function, grid, 1, 1, kThreads, 1, 1, 0,
                                              stream->stream, arguments, nullptr),
                  std::string(name));
  return nullptr;
}

bool HasKernels(const Driver& driver, const Device& device, std::string* reason) {
  const std::string compute =
      std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor);
  if (KernelImages().empty()) {
    *reason = "this plugin was built without a CUDA toolkit";
    return false;
  }
  // Machine code of one major version runs on later devices of that version.
#if defined(TUTTI_CUDA_MAJORS)
  constexpr int32_t kMajors[] = {TUTTI_CUDA_MAJORS};
#else
  constexpr int32_t kMajors[] = {0};
#endif
  if (std::find(std::begin(kMajors), std::end(kMajors), device.compute_major) ==
      std::end(kMajors)) {
    *reason = "its compute capability is " + compute + ", and the plugin has machine code for";
    for (const int32_t major : kMajors) *reason += " " + std::to_string(major) + ".x";
    return false;
  }
  // A driver loads what toolkits of its own major version made, and older ones.
  if (driver.version / 1000 < KernelToolkit() / 1000) {
    *reason = "the driver serves CUDA " + DriverVersionText(driver.version) +
              ", and the plugin was built with CUDA " + DriverVersionText(KernelToolkit()) +
              "; install a newer driver";
    return false;
  }
  return true;
}

tutti_status* Reduce(tutti_plugin_stream* stream, int32_t op, int32_t dtype,
                     const void* const* inputs, uint64_t count, uint64_t elements, void* out) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    const TypeInfo* const type = FindType(dtype);
    if (type == nullptr) return RefuseType(plugin, "reduce", dtype);
    if ((op < 1 || op > kLastOp) && op != TUTTI_PLUGIN_DIFFERENCE) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          "reduce: " + std::to_string(op) + " is no reduction");
    }
    const bool integer = type->as_bits != nullptr;
    const bool extreme = op == kMins || op == kMaxes;
    const bool difference = op == TUTTI_PLUGIN_DIFFERENCE;
    const char* const what = difference ? "sub" : kOps[op];
    const bool bits = op >= kBits && !difference;
    const bool defined = bits             ? integer || dtype == kBool
                         : dtype == kBool ? extreme
                                          : !(extreme && dtype >= kComplex64);
    if (!defined) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT, std::string("reduce: ") + what +
                                                      " is not defined for " + type->text);
    }
    if (count == 0 || count > TUTTI_PLUGIN_MAX_INPUTS) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          "reduce: " + std::to_string(count) + " inputs; 1 to " +
                              std::to_string(TUTTI_PLUGIN_MAX_INPUTS) + " are taken");
    }
    if (elements == 0) return nullptr;
    if (count == 1) {
      if (inputs[0] == out) return nullptr;
      return Copy(stream, TUTTI_PLUGIN_DEVICE_TO_DEVICE, out, inputs[0], elements * type->bytes);
    }
    auto params = std::make_unique<ReduceParams>();
    params->out = out;
    params->n = elements;
    params->count = static_cast<uint32_t>(count);
    Address addresses = AddressOf(out);
    const uint64_t alignment = type->bytes / type->parts;
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "reduce", out, alignment));
    for (uint64_t i = 0; i < count; ++i) {
      TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "reduce", inputs[i], alignment));
      params->inputs[i] = inputs[i];
      addresses |= AddressOf(inputs[i]);
    }
    params->aligned = addresses % 16 == 0 ? 1 : 0;
    const char* name = type->name;
    if (dtype == kBool) {
      name = "u8";
    } else if (integer && op != kMeans && !extreme) {
      name = type->as_bits;
    } else if (type->parts == 2 && op != kProducts) {
      name = dtype == kComplex64 ? "f32" : "f64";
      params->n *= 2;
    }
    const bool one_by_one = params->aligned == 0 || (integer && op == kMeans);
    const uint64_t per_thread = one_by_one ? 1 : 16 / type->bytes * type->parts;
    return Launch(stream, Named(what, name), params.get(),
                  (params->n + per_thread - 1) / per_thread);
  });
}

tutti_status* Scale(tutti_plugin_stream* stream, int32_t dtype, const void* in, double factor,
                    uint64_t elements, void* out) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    const TypeInfo* const type = FindType(dtype);
    if (type == nullptr || dtype == kBool) return RefuseType(plugin, "scale", dtype);
    if (elements == 0) return nullptr;
    const uint64_t alignment = type->bytes / type->parts;
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "scale", in, alignment));
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "scale", out, alignment));
    const char* name = type->parts == 1 ? type->name : dtype == kComplex64 ? "f32" : "f64";
    ScaleParams params = {in, out, elements * type->parts, factor};
    return Launch(stream, Named("scale", name), &params, params.n);
  });
}

tutti_status* Cast(tutti_plugin_stream* stream, int32_t from, const void* in, int32_t to, void* out,
                   uint64_t elements) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    const TypeInfo* const source = FindType(from);
    const TypeInfo* const target = FindType(to);
    if (source == nullptr) return RefuseType(plugin, "cast", from);
    if (target == nullptr) return RefuseType(plugin, "cast", to);
    if (elements == 0) return nullptr;
    if (from == to) {
      return Copy(stream, TUTTI_PLUGIN_DEVICE_TO_DEVICE, out, in, elements * source->bytes);
    }
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "cast", in, source->bytes / source->parts));
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "cast", out, target->bytes / target->parts));
    CastParams params = {in, out, elements, to};
    return Launch(stream, Named("cast", source->name), &params, elements);
  });
}

tutti_status* CopyStrided(tutti_plugin_stream* stream, uint64_t item_bytes, int32_t rank,
                          const int64_t* shape, const void* in, const int64_t* in_strides,
                          void* out, const int64_t* out_strides) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    if (item_bytes != 1 && item_bytes != 2 && item_bytes != 4 && item_bytes != 8 &&
        item_bytes != 16) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          "copy_strided: elements of " + std::to_string(item_bytes) +
                              " bytes; 1, 2, 4, 8 and 16 are taken");
    }
    if (rank < 0) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          "copy_strided: a rank of " + std::to_string(rank));
    }
    StridedParams params = {};
    params.in = in;
    params.out = out;
    params.n = 1;
    for (int32_t d = 0; d < rank; ++d) {
      if (shape[d] < 0) {
        return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                            "copy_strided: dimension " + std::to_string(d) + " has " +
                                std::to_string(shape[d]) + " elements");
      }
      params.n *= static_cast<uint64_t>(shape[d]);
    }
    if (params.n == 0) return nullptr;
    const uint64_t alignment = std::min<uint64_t>(item_bytes, 8);
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "copy_strided", in, alignment));
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "copy_strided", out, alignment));
    // A dimension that goes on where the next one ends is one with it.
    for (int32_t d = 0; d < rank; ++d) {
      if (shape[d] == 1) continue;
      const int32_t last = params.rank - 1;
      if (last >= 0 && params.in_strides[last] == in_strides[d] * shape[d] &&
          params.out_strides[last] == out_strides[d] * shape[d]) {
        params.shape[last] *= static_cast<uint64_t>(shape[d]);
        params.in_strides[last] = in_strides[d];
        params.out_strides[last] = out_strides[d];
        continue;
      }
      if (params.rank == kMostDimensions) {
        return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                            "copy_strided: more than " + std::to_string(kMostDimensions) +
                                " dimensions; make it contiguous on the CPU");
      }
      params.shape[params.rank] = static_cast<uint64_t>(shape[d]);
      params.in_strides[params.rank] = in_strides[d];
      params.out_strides[params.rank] = out_strides[d];
      ++params.rank;
    }
    if (params.rank == 0 ||
        (params.rank == 1 && params.in_strides[0] == 1 && params.out_strides[0] == 1)) {
      return Copy(stream, TUTTI_PLUGIN_DEVICE_TO_DEVICE, out, in, params.n * item_bytes);
    }
    return Launch(stream, Named("strided", std::to_string(item_bytes).c_str()), &params, params.n);
  });
}

tutti_status* CheckNumerics(tutti_plugin_stream* stream, int32_t dtype, const void* in,
                            uint64_t elements, uint64_t* out_counts) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    const TypeInfo* const type = FindType(dtype);
    if (type == nullptr || dtype < kFloat16) return RefuseType(plugin, "check_numerics", dtype);
    if (elements == 0) return nullptr;
    TUTTI_CUDA_RETURN_IF(
        CheckAligned(plugin, "check_numerics", in, type->bytes / type->parts));
    TUTTI_CUDA_RETURN_IF(CheckAligned(plugin, "check_numerics", out_counts, 8));
    const char* name = type->parts == 1 ? type->name : dtype == kComplex64 ? "f32" : "f64";
    CheckParams params = {in, elements * type->parts, out_counts};
    return Launch(stream, Named("check", name), &params, params.n);
  });
}

}  // namespace tutti::cuda

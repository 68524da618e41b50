#include "core/cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>

namespace tutti::cuda {

std::string DriverVersionText(int32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string Driver::Describe(Outcome outcome) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (GetErrorName == nullptr || GetErrorName(outcome, &name) != kSuccess || name == nullptr) {
    name = "error";
  }
  std::string described = std::string(name) + " (" + std::to_string(outcome) + ")";
  if (GetErrorString != nullptr && GetErrorString(outcome, &text) == kSuccess && text != nullptr) {
    described += std::string(": ") + text;
  }
  return described;
}

bool Driver::Load(std::string* reason) {
  const char* path = std::getenv("TUTTI_CUDA_DRIVER");
  const bool chosen = path != nullptr && *path != '\0';
  if (!chosen) path = "libcuda.so.1";
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    *reason = std::string("there is no NVIDIA driver: ") + (error != nullptr ? error : path) +
              (chosen ? "; TUTTI_CUDA_DRIVER names that path" : "");
    return false;
  }
  const auto find = [&](auto* slot, const char* symbol) {
    *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(dlsym(library, symbol));
    if (*slot == nullptr && reason->empty()) *reason = symbol;
  };
  reason->clear();
#define TUTTI_CUDA_SLOT(member, symbol, parameters) find(&member, symbol);
  TUTTI_CUDA_SLOTS(TUTTI_CUDA_SLOT)
#undef TUTTI_CUDA_SLOT
  const std::string missing = *reason;
  reason->clear();
  const std::string upgrade = "; install one of version " + DriverVersionText(kOldestDriver) +
                              " or later (nvidia-smi shows which one there is)";
  if (DriverGetVersion != nullptr && DriverGetVersion(&version) == kSuccess &&
      version < kOldestDriver) {
    *reason = std::string("the NVIDIA driver ") + path + " serves CUDA " +
              DriverVersionText(version) + upgrade;
    return false;
  }
  if (!missing.empty()) {
    *reason = std::string("the NVIDIA driver ") + path + " has no " + missing + upgrade;
    return false;
  }
  const Outcome started = Init(0);
  if (started == kSuccess) return true;
  *reason = started == kNoDevice
                ? "the NVIDIA driver sees no device (CUDA_VISIBLE_DEVICES may hide them)"
                : std::string("the NVIDIA driver ") + path + " does not start: cuInit: " +
                      Describe(started);
  return false;
}

}  // namespace tutti::cuda

#include "core/cuda/nccl.h"

#include <dlfcn.h>
#include <link.h>
#include <tutti/plugin.h>
#include <tutti/status.h>

#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace tutti::cuda::nccl {
namespace {

// The file of an NCCL that is in the process; "" without one.
std::string LoadedFile() {
  std::string found;
  dl_iterate_phdr(
      [](struct dl_phdr_info* info, size_t, void* data) {
        const char* const slash = std::strrchr(info->dlpi_name, '/');
        const char* const name = slash == nullptr ? info->dlpi_name : slash + 1;
        constexpr char kStart[] = "libnccl.so";
        if (std::strncmp(name, kStart, sizeof(kStart) - 1) != 0) return 0;
        *static_cast<std::string*>(data) = info->dlpi_name;
        return 1;
      },
      &found);
  return found;
}

std::string LastLoaderError() {
  const char* const error = dlerror();
  return error != nullptr ? error : "unknown";
}

}  // namespace

std::string VersionText(int32_t version) {
  // Up to 2.8 a version had one digit less.
  const int32_t unit = version < 10000 ? 10 : 100;
  return std::to_string(version / 100 / unit) + "." + std::to_string(version / 100 % unit) + "." +
         std::to_string(version % 100);
}

std::string Library::Describe(Outcome outcome, Comm comm) const {
  const char* text = GetErrorString(outcome);
  std::string described = std::string(text != nullptr ? text : "error") + " (" +
                          std::to_string(outcome) + ")";
  const char* const last = GetLastError(comm);
  if (last != nullptr && *last != '\0') described += std::string(": ") + last;
  return described;
}

int32_t Library::Load(std::string* reason) {
  const char* const chosen = std::getenv("TUTTI_NCCL_LIBRARY");
  void* library = nullptr;
  file = LoadedFile();
  origin = "the process";
  if (!file.empty()) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) {
    const bool named = chosen != nullptr && *chosen != '\0';
    file = named ? chosen : "libnccl.so.2";
    origin = named ? "TUTTI_NCCL_LIBRARY" : "the system";
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      *reason = "there is no NCCL: " + LastLoaderError() +
                (named ? "; TUTTI_NCCL_LIBRARY names that path"
                       : "; install it (pip install nvidia-nccl-cu13), or name its file by "
                         "TUTTI_NCCL_LIBRARY");
      return TUTTI_NOT_FOUND;
    }
  }
  std::string missing;
  const auto find = [&](auto* slot, const char* symbol, bool needed) {
    *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(dlsym(library, symbol));
    if (*slot == nullptr && needed && missing.empty()) missing = symbol;
  };
#define TUTTI_NCCL_FIND(member, symbol, parameters) find(&member, symbol, true);
#define TUTTI_NCCL_LOOK(member, symbol, parameters) find(&member, symbol, false);
  TUTTI_NCCL_SLOTS(TUTTI_NCCL_FIND)
  TUTTI_NCCL_NEWER_SLOTS(TUTTI_NCCL_LOOK)
#undef TUTTI_NCCL_FIND
#undef TUTTI_NCCL_LOOK
  find(&GetErrorString, "ncclGetErrorString", true);
  find(&GetLastError, "ncclGetLastError", true);
  if (GetVersion == nullptr || GetVersion(&version) != kSuccess) {
    *reason = file + " (from " + origin + ") is no NCCL: it has no ncclGetVersion";
    return TUTTI_FAILED_PRECONDITION;
  }
  const std::string about = "NCCL " + VersionText(version) + " (" + file + ", from " + origin + ")";
  const std::string upgrade = "; 2.18 or newer is needed: install one (pip install "
                              "nvidia-nccl-cu13), or name its file by TUTTI_NCCL_LIBRARY";
  if (version < kOldest) {
    *reason = about + " is too old" + upgrade;
    return TUTTI_FAILED_PRECONDITION;
  }
  if (!missing.empty()) {
    *reason = about + " has no " + missing + upgrade;
    return TUTTI_FAILED_PRECONDITION;
  }
  const auto can = [&](bool there, uint32_t capability) {
    if (there) capabilities |= capability;
  };
  can(MemAlloc != nullptr && MemFree != nullptr, TUTTI_PLUGIN_CAN_ALLOCATE);
  can(CommRegister != nullptr && CommDeregister != nullptr, TUTTI_PLUGIN_CAN_REGISTER);
  can(CommShrink != nullptr, TUTTI_PLUGIN_CAN_SHRINK);
  can(CommWindowRegister != nullptr && CommWindowDeregister != nullptr,
      TUTTI_PLUGIN_CAN_REGISTER_WINDOW);
  can(CommRevoke != nullptr, TUTTI_PLUGIN_CAN_REVOKE);
  can(CommGrow != nullptr && CommGetUniqueId != nullptr, TUTTI_PLUGIN_CAN_GROW);
  can(version >= kSharesDevices, TUTTI_PLUGIN_CAN_SHARE_DEVICES);
  can(SetEncryption != nullptr, TUTTI_PLUGIN_CAN_ENCRYPT);
  return TUTTI_OK;
}

}  // namespace tutti::cuda::nccl

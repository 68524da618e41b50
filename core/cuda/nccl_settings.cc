// Which NCCL is used, and what it is told before its first communicator: by variables of the
// environment, which it reads once.
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "core/cuda/communicator.h"

namespace tutti::cuda {
namespace {

constexpr size_t kShortestKey = 32;

// True where the user has set a variable of NCCL's, in the environment or in one of the files that
// NCCL reads.
bool IsSetByUser(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value != nullptr && *value != '\0') return true;
  const char* const named = std::getenv("NCCL_CONF_FILE");
  const char* const home = std::getenv("HOME");
  const std::string own = named != nullptr  ? named
                          : home != nullptr ? std::string(home) + "/.nccl.conf"
                                            : "";
  for (const std::string& file : {own, std::string("/etc/nccl.conf")}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(std::string(variable) + "=", 0) == 0) return true;
    }
  }
  return false;
}

// With the mutex held.
void Look(tutti_plugin* plugin) {
  Communicators& all = *plugin->communicators;
  if (std::exchange(all.looked, true)) return;
  all.why_not_code = all.library.Load(&all.why_not);
  if (all.why_not_code != TUTTI_OK) return;
  const std::string line = "NCCL " + nccl::VersionText(all.library.version) + " from " +
                           all.library.origin + ": " + all.library.file;
  plugin->host->log(plugin->host->context, 2, line.c_str());
}

void CopyText(char* to, size_t size, const std::string& text) {
  const size_t length = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

tutti_status* FindNccl(tutti_plugin* plugin) {
  Communicators& all = *plugin->communicators;
  const std::lock_guard lock(all.mutex);
  Look(plugin);
  return all.why_not_code == TUTTI_OK ? nullptr : plugin->Fail(all.why_not_code, all.why_not);
}

tutti_status* StartNccl(tutti_plugin* plugin) {
  TUTTI_CUDA_RETURN_IF(FindNccl(plugin));
  if (plugin->devices.empty()) {
    return plugin->Fail(TUTTI_FAILED_PRECONDITION,
                        "NCCL needs a GPU, and none can be used: " + plugin->why_no_device);
  }
  Communicators& all = *plugin->communicators;
  const std::lock_guard lock(all.mutex);
  if (std::exchange(all.used, true)) return nullptr;
  // "=": the whole name, not its beginning.
  if (!all.network_interface.empty() && !IsSetByUser("NCCL_SOCKET_IFNAME")) {
    setenv("NCCL_SOCKET_IFNAME", ("=" + all.network_interface).c_str(), 1);
  }
  if (all.share_devices && (all.library.capabilities & TUTTI_PLUGIN_CAN_SHARE_DEVICES) != 0 &&
      !IsSetByUser("NCCL_MULTI_RANK_GPU_ENABLE")) {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  }
  return nullptr;
}

tutti_status* DescribeNccl(tutti_plugin* plugin, tutti_plugin_communicator_library* out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(FindNccl(plugin));
    const nccl::Library& library = plugin->communicators->library;
    tutti_plugin_communicator_library known = {};
    known.struct_size = out->struct_size;
    known.version = library.version;
    known.capabilities = library.capabilities;
    CopyText(known.file, sizeof(known.file), library.file);
    CopyText(known.origin, sizeof(known.origin), library.origin);
    std::memcpy(out, &known, std::min(out->struct_size, sizeof(known)));
    return nullptr;
  });
}

tutti_status* Configure(tutti_plugin* plugin, const tutti_plugin_communicator_settings* settings) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(FindNccl(plugin));
    const auto text = [](const char* given) { return std::string(given == nullptr ? "" : given); };
    const std::string interface = text(settings->network_interface);
    const std::string key = text(settings->encryption_key);
    const bool share = settings->share_devices != 0;
    Communicators& all = *plugin->communicators;
    const std::lock_guard lock(all.mutex);
    const bool same = interface == all.network_interface && key == all.encryption_key &&
                      share == all.share_devices;
    if (same) return nullptr;
    if (all.used) {
      return plugin->Fail(TUTTI_FAILED_PRECONDITION,
                          "NCCL is in use already and has read its settings; configure it before "
                          "the first communicator of the process");
    }
    if (!key.empty() && key != all.encryption_key) {
      if (key.size() < kShortestKey) {
        return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                            "the key of NCCL's encryption has " + std::to_string(key.size()) +
                                " characters; " + std::to_string(kShortestKey) +
                                " or more are needed");
      }
      if (all.library.SetEncryption == nullptr) {
        return plugin->Fail(TUTTI_UNIMPLEMENTED,
                            "NCCL " + nccl::VersionText(all.library.version) +
                                " cannot encrypt: 2.32 or newer can, where it was built with TLS");
      }
      nccl::Encryption encryption;
      encryption.key = key.c_str();
      const nccl::Outcome outcome = all.library.SetEncryption(&encryption);
      if (outcome != nccl::kSuccess) {
        return plugin->Fail(TUTTI_UNIMPLEMENTED, "NCCL does not encrypt: ncclSetEncryption: " +
                                                     all.library.Describe(outcome, nullptr));
      }
    }
    all.network_interface = interface;
    all.encryption_key = key;
    all.share_devices = share;
    return nullptr;
  });
}

}  // namespace tutti::cuda

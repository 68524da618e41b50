// Opening a plugin, and what it is given by us: statuses, the log and memory accounts.
#include "core/device/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "core/base/error.h"
#include "core/device/gpu_aborts.h"

namespace tutti {
namespace {

tutti_status* MakePluginStatus(void*, int32_t code, const char* message) {
  const bool known = code > static_cast<int32_t>(StatusCode::kOk) &&
                     code <= static_cast<int32_t>(StatusCode::kUnauthenticated);
  return DevicePlugin::Given(Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                         message != nullptr ? message : ""));
}

void ReleasePluginStatus(void*, tutti_status* status) { (void)DevicePlugin::Taken(status); }

// The last function that we cannot do without.
constexpr size_t kSmallestTable =
    offsetof(tutti_plugin_api, close) + sizeof(tutti_plugin_api::close);

template <class FunctionType>
FunctionType FindSymbol(void* library, const char* name) {
  return reinterpret_cast<FunctionType>(dlsym(library, name));
}

}  // namespace

Status DevicePlugin::Taken(tutti_status* status) {
  return Status::Adopt(reinterpret_cast<const StatusRep*>(status));
}

tutti_status* DevicePlugin::Given(Status status) {
  return reinterpret_cast<tutti_status*>(const_cast<StatusRep*>(status.release()));
}

std::string DevicePlugin::DefaultPath() {
  Dl_info about = {};
  const auto address = reinterpret_cast<const void*>(&DevicePlugin::DefaultPath);
  if (dladdr(address, &about) == 0 || about.dli_fname == nullptr) return "libtutti_cuda.so";
  const std::string file = about.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "libtutti_cuda.so"
                                    : file.substr(0, slash + 1) + "libtutti_cuda.so";
}

DevicePlugin::DevicePlugin(std::string path, const DevicePluginOptions& options)
    : path_(std::move(path)),
      options_(options),
      host_{sizeof(tutti_plugin_host),
            TUTTI_PLUGIN_ABI_VERSION,
            this,
            MakePluginStatus,
            ReleasePluginStatus,
            [](void* context, int32_t level, const char* message) {
              const auto& log = static_cast<DevicePlugin*>(context)->options_.log;
              if (log) log(static_cast<LogLevel>(level), message);
            },
            [](void* context, int32_t device, uint64_t bytes) {
              MemoryAccount* const account = static_cast<DevicePlugin*>(context)->AccountOf(device);
              return account == nullptr ? nullptr : DevicePlugin::Given(account->Reserve(bytes));
            },
            [](void* context, int32_t device, uint64_t bytes) {
              MemoryAccount* const account = static_cast<DevicePlugin*>(context)->AccountOf(device);
              if (account != nullptr) account->Unreserve(bytes);
            }},
      aborts_(std::make_unique<GpuAborts>()) {}

DevicePlugin::~DevicePlugin() {
  if (plugin_ != nullptr) api_->close(plugin_);
}

MemoryAccount* DevicePlugin::AccountOf(int32_t device) const {
  if (device == TUTTI_PLUGIN_HOST_MEMORY) return options_.host_account.get();
  return device >= 0 && device < num_devices_ ? accounts_[static_cast<size_t>(device)].get()
                                              : nullptr;
}

Result<Ref<DevicePlugin>> DevicePlugin::Open(const std::string& path,
                                             const DevicePluginOptions& options) {
  if (access(path.c_str(), F_OK) != 0) {
    return NotFound("plugin {}: there is no such file", path).With("file", path);
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const error = dlerror();
    return FailedPrecondition("plugin {}: it does not load: {}", path,
                              error != nullptr ? error : "unknown")
        .With("file", path);
  }
  Ref<DevicePlugin> plugin = MakeRef<DevicePlugin>(path, options);
  TUTTI_RETURN_IF_ERROR(plugin->Start(library));
  return plugin;
}

Status DevicePlugin::Start(void* library) {
  const auto version =
      FindSymbol<uint32_t (*)()>(library, "tutti_plugin_abi_version");
  const auto open = FindSymbol<tutti_status* (*)(const tutti_plugin_host*, const tutti_plugin_api**,
                                                 tutti_plugin**)>(library, "tutti_plugin_open");
  if (version == nullptr || open == nullptr) {
    return FailedPrecondition("plugin {}: it is no plugin: it has no {}", path_,
                              version == nullptr ? "tutti_plugin_abi_version" : "tutti_plugin_open")
        .With("file", path_);
  }
  const uint32_t found = version();
  if (found >> 16 != TUTTI_PLUGIN_ABI_VERSION >> 16) {
    return FailedPrecondition(
               "plugin {}: it speaks version {}.{} of the interface, this library {}.{}; install "
               "both from the same build",
               path_, found >> 16, found & 0xffff, TUTTI_PLUGIN_ABI_VERSION >> 16,
               TUTTI_PLUGIN_ABI_VERSION & 0xffff)
        .With("file", path_);
  }
  TUTTI_RETURN_IF_ERROR(Taken(open(&host_, &api_, &plugin_)).WithPrefix("plugin " + path_));
  if (api_->struct_size < kSmallestTable) {
    plugin_ = nullptr;  // it has no way to be closed
    return FailedPrecondition("plugin {}: its table has {} bytes, at least {} are needed", path_,
                              api_->struct_size, kSmallestTable)
        .With("file", path_);
  }
  num_devices_ = api_->device_count(plugin_);
  why_no_device_ = api_->why_no_device(plugin_);
  for (int i = 0; i < num_devices_; ++i) {
    accounts_.push_back(MakeRef<MemoryAccount>(Format("GPU:{}", i)));
  }
  return OkStatus();
}

Result<tutti_plugin_device_properties> DevicePlugin::Properties(int device) const {
  tutti_plugin_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  TUTTI_RETURN_IF_ERROR(Taken(api_->device_properties(plugin_, device, &properties)));
  return properties;
}

Result<tutti_plugin_memory_info> DevicePlugin::Memory(int device) const {
  tutti_plugin_memory_info info = {};
  info.struct_size = sizeof(info);
  TUTTI_RETURN_IF_ERROR(Taken(api_->memory_info(plugin_, device, &info)));
  return info;
}

}  // namespace tutti

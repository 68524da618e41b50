// A device plugin as the core sees it: the library that speaks to a kind of device, opened, with
// the host's half of the interface behind it (tutti/plugin.h has both halves).
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<DevicePlugin> plugin, DevicePlugin::Open(path, options));
//   for (int i = 0; i < plugin->num_devices(); ++i) { ... plugin->Properties(i) ... }
//
// Threads: any.
#ifndef TUTTI_CORE_DEVICE_PLUGIN_H_
#define TUTTI_CORE_DEVICE_PLUGIN_H_

#include <tutti/plugin.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"
#include "core/base/memory_account.h"
#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class GpuAborts;

struct DevicePluginOptions {
  // Lines of the plugin's; none: nowhere.
  std::function<void(LogLevel, std::string_view)> log;
  // Is charged with pinned memory; may be null. Device memory has an account for each device, which
  // nothing else is charged to.
  Ref<MemoryAccount> host_account;
};

class DevicePlugin final : public RefCounted {
 public:
  // Where the CUDA plugin of this build lies: beside the library (or the program) that the core is
  // part of. It need not be there.
  static std::string DefaultPath();

  // Opens the library at `path`; it stays loaded for ever. NOT_FOUND where there is no such file,
  // FAILED_PRECONDITION for one that does not load, is no plugin, or is of another major version.
  static Result<Ref<DevicePlugin>> Open(const std::string& path,
                                        const DevicePluginOptions& options = {});

  int num_devices() const { return num_devices_; }
  // "" when there are devices.
  std::string_view why_no_device() const { return why_no_device_; }
  const std::string& path() const { return path_; }

  // NOT_FOUND for a device that is not there.
  Result<tutti_plugin_device_properties> Properties(int device) const;
  Result<tutti_plugin_memory_info> Memory(int device) const;
  // What the plugin's allocations on a device are charged to; its limit is the user's to set.
  MemoryAccount& account(int device) const { return *accounts_[static_cast<size_t>(device)]; }

  // Its communicators that end together (gpu_aborts.h).
  GpuAborts& aborts() const { return *aborts_; }

  const tutti_plugin_api& api() const { return *api_; }
  tutti_plugin* handle() const { return plugin_; }

  // What a function of the table returned.
  static Status Taken(tutti_status* status);
  // What a function of ours that the plugin calls returns.
  static tutti_status* Given(Status status);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  DevicePlugin(std::string path, const DevicePluginOptions& options);
  ~DevicePlugin() override;

  Status Start(void* library);
  MemoryAccount* AccountOf(int32_t device) const;

  const std::string path_;
  const DevicePluginOptions options_;
  const tutti_plugin_host host_;
  const tutti_plugin_api* api_ = nullptr;
  tutti_plugin* plugin_ = nullptr;
  int num_devices_ = 0;
  std::string why_no_device_;
  std::vector<Ref<MemoryAccount>> accounts_;
  const std::unique_ptr<GpuAborts> aborts_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_PLUGIN_H_

// How a wait inside the plugin is ended by deadline and cancellation.
#ifndef TUTTI_CORE_DEVICE_GPU_WAIT_H_
#define TUTTI_CORE_DEVICE_GPU_WAIT_H_

#include <tutti/plugin.h>

#include <string_view>
#include <utility>

#include "core/base/call_options.h"
#include "core/device/gpu_stream.h"
#include "core/device/plugin.h"

namespace tutti {

// Calls `call` with what ends the plugin's wait (null: nothing does) and takes its status. `what`
// stands in the message of a wait that was ended.
template <class Call>
Status WaitInPlugin(const GpuWait& wait, std::string_view what, Call call) {
  if (wait.options == nullptr) {
    return DevicePlugin::Taken(call(static_cast<const tutti_plugin_wait*>(nullptr)));
  }
  struct Asked {
    const GpuWait& wait;
    std::string_view what;
  };
  const Asked asked{wait, what};
  tutti_plugin_wait stop = {};
  stop.struct_size = sizeof(stop);
  stop.user_data = const_cast<Asked*>(&asked);
  stop.stop = [](void* user_data) {
    const auto& [of, name] = *static_cast<const Asked*>(user_data);
    if (of.options->cancellation != nullptr) (void)of.options->cancellation->PollNow();
    if (of.failure != nullptr) {
      Status failure = (*of.failure)();
      if (!failure.ok()) return DevicePlugin::Given(std::move(failure));
    }
    return DevicePlugin::Given(CheckCallOptions(*of.options, *of.clock, name));
  };
  return DevicePlugin::Taken(call(static_cast<const tutti_plugin_wait*>(&stop)));
}

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_WAIT_H_

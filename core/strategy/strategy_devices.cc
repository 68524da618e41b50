#include "core/strategy/strategy_devices.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/strategy/strategy.h"

namespace tutti {

size_t CountGpus(std::span<const Ref<Device>> devices) {
  return static_cast<size_t>(
      std::count_if(devices.begin(), devices.end(),
                    [](const Ref<Device>& device) { return device->type() == DeviceType::kGpu; }));
}

Result<std::vector<Ref<Device>>> FindDevices(const DeviceSet& devices,
                                             std::span<const std::string> names,
                                             const char* type_name) {
  std::vector<Ref<Device>> found;
  if (names.empty()) found = devices.ListDevices(DeviceType::kGpu);
  if (names.empty() && found.empty()) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Device> cpu, devices.Find("CPU:0"));
    found.push_back(std::move(cpu));
  }
  for (const std::string& name : names) {
    Result<Ref<Device>> device = devices.Find(name);
    if (!device.ok()) {
      return InvalidArgument("{}: device {} cannot be used: {}", type_name, Quote(name),
                             device.status().message())
          .WithCause(device.status());
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i]->id() != (*device)->id()) continue;
      return InvalidArgument(
          "{}: devices {} ({}) and {} ({}) are the same; name each device once, "
          "logical CPUs are CPU:0, CPU:1, ...",
          type_name, i, Quote(names[i]), found.size(), Quote(name));
    }
    found.push_back(std::move(device).value());
  }
  return found;
}

void TellOfMixedDevices(Log& log, std::span<const Ref<Device>> devices, const char* type_name) {
  const size_t gpus = CountGpus(devices);
  if (gpus == 0 || gpus == devices.size()) return;
  log.Warning(Format("{}: {} of {} replicas are on GPUs and the rest on CPUs: what they reduce "
                     "together goes through the host, and NCCL is not used; name devices of one "
                     "type",
                     type_name, gpus, devices.size()));
}

Result<std::vector<Ref<Device>>> FindDevices(const DeviceSet& devices,
                                             const MultiWorkerOptions& options,
                                             const char* type_name) {
  if (options.num_replicas < 0) {
    return InvalidArgument(
        "{}: num_replicas is {}; pass 1 or more, or 0 for as many as there are "
        "devices",
        type_name, options.num_replicas);
  }
  const auto wanted = static_cast<size_t>(options.num_replicas);
  if (!options.devices.empty()) {
    if (wanted != 0 && wanted != options.devices.size()) {
      return InvalidArgument(
          "{}: num_replicas is {}, and {} devices are named; pass one of the two", type_name,
          wanted, options.devices.size());
    }
    return FindDevices(devices, options.devices, type_name);
  }
  if (wanted == 0) return FindDevices(devices, options.devices, type_name);
  const char* type = devices.ListDevices(DeviceType::kGpu).size() >= wanted ? "GPU" : "CPU";
  std::vector<std::string> names;
  for (size_t i = 0; i < wanted; ++i) names.push_back(Format("{}:{}", type, i));
  return FindDevices(devices, names, type_name);
}

}  // namespace tutti

#include "core/device/gpu_communicator.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/gpu_wait.h"

namespace tutti {
namespace {

// The last function that we cannot do without.
constexpr size_t kSmallestCommunicators = offsetof(tutti_plugin_communicator_api, num_quarantined) +
                                          sizeof(tutti_plugin_communicator_api::num_quarantined);

Result<const tutti_plugin_communicator_api*> CommunicatorsOf(const DevicePlugin& plugin) {
  const tutti_plugin_api& api = plugin.api();
  constexpr size_t kNeeded =
      offsetof(tutti_plugin_api, communicators) + sizeof(tutti_plugin_api::communicators);
  if (api.struct_size < kNeeded || api.communicators == nullptr ||
      api.communicators->struct_size < kSmallestCommunicators) {
    return Unimplemented(
        "plugin {}: its version {} has no communicators; install one of this library's build",
        plugin.path(), api.version);
  }
  return api.communicators;
}

std::string NcclVersionText(int version) {
  return Format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

int32_t Number(DType dtype) { return static_cast<int32_t>(dtype); }
int32_t Number(ReduceOp op) { return static_cast<int32_t>(op); }

Result<tutti_plugin_communicator_config> PluginConfig(const GpuPlace& place,
                                                      const GpuCommunicatorConfig& config) {
  if (config.num_ranks < 1 || config.rank < 0 || config.rank >= config.num_ranks) {
    return InvalidArgument(
        "a communicator of {} ranks has no rank {}; ranks go from 0 to the number less 1",
        config.num_ranks, config.rank);
  }
  tutti_plugin_communicator_config made = {};
  made.struct_size = sizeof(made);
  made.device = place.ordinal;
  made.rank = config.rank;
  made.num_ranks = config.num_ranks;
  std::memcpy(made.id, config.id.data(), config.id.size());
  made.min_blocks = config.min_blocks;
  made.max_blocks = config.max_blocks;
  return made;
}

std::string UuidText(const unsigned char* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += Format("{:02x}", bytes[i]);
  return text;
}

}  // namespace

std::string GpuCollectives::version_text() const { return NcclVersionText(version); }

Result<GpuCollectives> FindGpuCollectives(const DevicePlugin& plugin) {
  TUTTI_ASSIGN_OR_RETURN(const auto* const api, CommunicatorsOf(plugin));
  tutti_plugin_communicator_library library = {};
  library.struct_size = sizeof(library);
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api->library(plugin.handle(), &library)));
  return GpuCollectives{library.version, library.capabilities, library.file, library.origin};
}

Status ConfigureGpuCollectives(const DevicePlugin& plugin,
                               const GpuCollectivesSettings& settings) {
  TUTTI_ASSIGN_OR_RETURN(const auto* const api, CommunicatorsOf(plugin));
  const auto text = [](const std::string& value) {
    return value.empty() ? nullptr : value.c_str();
  };
  tutti_plugin_communicator_settings given = {};
  given.struct_size = sizeof(given);
  given.network_interface = text(settings.network_interface);
  given.share_devices = settings.share_devices ? 1 : 0;
  given.encryption_key = text(settings.encryption_key);
  return DevicePlugin::Taken(api->configure(plugin.handle(), &given));
}

Result<GpuCommunicatorId> NewGpuCommunicatorId(const DevicePlugin& plugin) {
  TUTTI_ASSIGN_OR_RETURN(const auto* const api, CommunicatorsOf(plugin));
  GpuCommunicatorId id = {};
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api->get_unique_id(plugin.handle(), id.data())));
  return id;
}

int NumQuarantinedGpuCommunicators(const DevicePlugin& plugin) {
  const auto api = CommunicatorsOf(plugin);
  return api.ok() ? api.value()->num_quarantined(plugin.handle()) : 0;
}

Result<GpuRankFacts> FactsOfGpuRank(const GpuPlace& place, std::string_view host) {
  TUTTI_ASSIGN_OR_RETURN(const GpuCollectives library, FindGpuCollectives(*place.plugin));
  TUTTI_ASSIGN_OR_RETURN(const auto properties, place.plugin->Properties(place.ordinal));
  return GpuRankFacts{std::string(host), UuidText(properties.uuid, sizeof(properties.uuid)),
                      library.version, library.capabilities};
}

Status CheckGpuRanks(std::span<const GpuRankFacts> ranks) {
  for (size_t i = 1; i < ranks.size(); ++i) {
    // NCCL's ranks speak a protocol of their own for each release.
    if (ranks[i].nccl_version / 100 != ranks[0].nccl_version / 100) {
      return FailedPrecondition(
          "rank {} has NCCL {}, rank 0 has NCCL {}: they cannot be one communicator; install the "
          "same release everywhere (TUTTI_NCCL_LIBRARY names the file to use)",
          i, NcclVersionText(ranks[i].nccl_version), NcclVersionText(ranks[0].nccl_version));
    }
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (ranks[i].host != ranks[j].host || ranks[i].device != ranks[j].device) continue;
      if ((ranks[i].capabilities & ranks[j].capabilities & TUTTI_PLUGIN_CAN_SHARE_DEVICES) != 0) {
        continue;
      }
      return FailedPrecondition(
          "ranks {} and {} are both on device {} of {}: NCCL {} cannot do that; give each rank a "
          "device of its own (CUDA_VISIBLE_DEVICES), or install NCCL 2.30",
          j, i, ranks[i].device, ranks[i].host, NcclVersionText(ranks[i].nccl_version));
    }
  }
  return OkStatus();
}

Result<Ref<GpuCommunicator>> GpuCommunicator::Begin(const GpuPlace& place,
                                                    const GpuCommunicatorConfig& config) {
  TUTTI_ASSIGN_OR_RETURN(const auto* const api, CommunicatorsOf(*place.plugin));
  TUTTI_ASSIGN_OR_RETURN(const auto given, PluginConfig(place, config));
  tutti_plugin_communicator* made = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api->create(place.plugin->handle(), &given, &made)));
  return MakeRef<GpuCommunicator>(place, made);
}

Result<Ref<GpuCommunicator>> GpuCommunicator::BeginToJoin(const GpuPlace& place,
                                                          const GpuCommunicatorConfig& config) {
  TUTTI_ASSIGN_OR_RETURN(const auto* const api, CommunicatorsOf(*place.plugin));
  TUTTI_ASSIGN_OR_RETURN(const auto given, PluginConfig(place, config));
  tutti_plugin_communicator* made = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api->join(place.plugin->handle(), &given, &made)));
  return MakeRef<GpuCommunicator>(place, made);
}

GpuCommunicator::~GpuCommunicator() { api().destroy(communicator_); }

Status GpuCommunicator::AwaitReady(const GpuWait& wait) {
  return WaitInPlugin(wait, "waiting for the ranks of a communicator of GPUs",
                      [&](const auto* stop) { return api().await_ready(communicator_, stop); });
}

Result<tutti_plugin_communicator_info> GpuCommunicator::Info() const {
  tutti_plugin_communicator_info info = {};
  info.struct_size = sizeof(info);
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api().info(communicator_, &info)));
  return info;
}

Status GpuCommunicator::Poll() const { return DevicePlugin::Taken(api().poll(communicator_)); }

Status GpuCommunicator::AllReduce(const GpuStream& stream, ReduceOp op, DType dtype,
                                  const void* in, void* out, uint64_t elements,
                                  const GpuWait& wait) {
  return WaitInPlugin(wait, "all_reduce of GPUs", [&](const auto* stop) {
    return api().all_reduce(communicator_, stream.raw(), Number(op), Number(dtype), in, out,
                            elements, stop);
  });
}

Status GpuCommunicator::Reduce(const GpuStream& stream, ReduceOp op, DType dtype, const void* in,
                               void* out, uint64_t elements, int root, const GpuWait& wait) {
  return WaitInPlugin(wait, "reduce of GPUs", [&](const auto* stop) {
    return api().reduce(communicator_, stream.raw(), Number(op), Number(dtype), in, out, elements,
                        root, stop);
  });
}

Status GpuCommunicator::Broadcast(const GpuStream& stream, DType dtype, const void* in, void* out,
                                  uint64_t elements, int root, const GpuWait& wait) {
  return WaitInPlugin(wait, "broadcast of GPUs", [&](const auto* stop) {
    return api().broadcast(communicator_, stream.raw(), Number(dtype), in, out, elements, root,
                           stop);
  });
}

Status GpuCommunicator::AllGather(const GpuStream& stream, DType dtype, const void* in, void* out,
                                  uint64_t elements, const GpuWait& wait) {
  return WaitInPlugin(wait, "all_gather of GPUs", [&](const auto* stop) {
    return api().all_gather(communicator_, stream.raw(), Number(dtype), in, out, elements, stop);
  });
}

Status GpuCommunicator::ReduceScatter(const GpuStream& stream, ReduceOp op, DType dtype,
                                      const void* in, void* out, uint64_t elements,
                                      const GpuWait& wait) {
  return WaitInPlugin(wait, "reduce_scatter of GPUs", [&](const auto* stop) {
    return api().reduce_scatter(communicator_, stream.raw(), Number(op), Number(dtype), in, out,
                                elements, stop);
  });
}

Status GpuCommunicator::Send(const GpuStream& stream, DType dtype, const void* in,
                             uint64_t elements, int peer, const GpuWait& wait) {
  return WaitInPlugin(wait, "send of GPUs", [&](const auto* stop) {
    return api().send(communicator_, stream.raw(), Number(dtype), in, elements, peer, stop);
  });
}

Status GpuCommunicator::Receive(const GpuStream& stream, DType dtype, void* out,
                                uint64_t elements, int peer, const GpuWait& wait) {
  return WaitInPlugin(wait, "receive of GPUs", [&](const auto* stop) {
    return api().receive(communicator_, stream.raw(), Number(dtype), out, elements, peer, stop);
  });
}

Result<Ref<GpuCommunicator>> GpuCommunicator::Split(int color, int key) {
  tutti_plugin_communicator* made = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api().split(communicator_, color, key, &made)));
  if (made == nullptr) return Ref<GpuCommunicator>();
  return MakeRef<GpuCommunicator>(place_, made);
}

Result<Ref<GpuCommunicator>> GpuCommunicator::Shrink(std::span<const int32_t> left_out,
                                                     bool aborting) {
  tutti_plugin_communicator* made = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
      api().shrink(communicator_, left_out.data(), static_cast<int32_t>(left_out.size()),
                   aborting ? 1 : 0, &made)));
  return MakeRef<GpuCommunicator>(place_, made);
}

Result<GpuCommunicatorId> GpuCommunicator::GrowId() {
  GpuCommunicatorId id = {};
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api().grow_id(communicator_, id.data())));
  return id;
}

Result<Ref<GpuCommunicator>> GpuCommunicator::Grow(int num_ranks, const GpuCommunicatorId* id) {
  tutti_plugin_communicator* made = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
      api().grow(communicator_, num_ranks, id != nullptr ? id->data() : nullptr, &made)));
  return MakeRef<GpuCommunicator>(place_, made);
}

Status GpuCommunicator::Revoke(const GpuWait& wait) {
  return WaitInPlugin(wait, "revoking a communicator of GPUs",
                      [&](const auto* stop) { return api().revoke(communicator_, stop); });
}

Status GpuCommunicator::Finalize(const GpuWait& wait) {
  return WaitInPlugin(wait, "finalizing a communicator of GPUs",
                      [&](const auto* stop) { return api().finalize(communicator_, stop); });
}

Status GpuCommunicator::Abort(std::span<const Ref<GpuCommunicator>> communicators,
                              const GpuWait& wait) {
  if (communicators.empty()) return OkStatus();
  std::vector<tutti_plugin_communicator*> raw;
  for (const auto& communicator : communicators) raw.push_back(communicator->raw());
  const GpuCommunicator& first = *communicators.front();
  return WaitInPlugin(wait, "aborting communicators of GPUs", [&](const auto* stop) {
    return first.api().abort(first.place_.plugin->handle(), raw.data(), raw.size(), stop);
  });
}

Result<Ref<GpuCommunicator::Registration>> GpuCommunicator::Register(void* memory, uint64_t bytes,
                                                                     bool window,
                                                                     const GpuWait& wait) {
  void* handle = nullptr;
  TUTTI_RETURN_IF_ERROR(
      WaitInPlugin(wait, "registering memory with NCCL", [&](const auto* stop) {
        return api().register_memory(communicator_, memory, bytes, window ? 1 : 0, stop, &handle);
      }));
  return MakeRef<Registration>(Ref<GpuCommunicator>::Retain(this), handle);
}

GpuCommunicator::Registration::~Registration() {
  // What it says of an aborted communicator concerns nobody.
  (void)DevicePlugin::Taken(
      communicator_->api().unregister_memory(communicator_->raw(), handle_));
}

Result<Ref<GpuRegisteredMemory>> GpuRegisteredMemory::Create(GpuCommunicator& communicator,
                                                             uint64_t bytes, const GpuWait& wait) {
  const GpuPlace& place = communicator.place();
  void* memory = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(place.api().communicators->allocate(
      place.plugin->handle(), place.ordinal, bytes, &memory)));
  Ref<GpuRegisteredMemory> made = MakeRef<GpuRegisteredMemory>(place, memory, bytes);
  TUTTI_ASSIGN_OR_RETURN(made->registration_, communicator.Register(memory, bytes, false, wait));
  return made;
}

GpuRegisteredMemory::~GpuRegisteredMemory() {
  registration_.reset();
  (void)DevicePlugin::Taken(
      place_.api().communicators->release(place_.plugin->handle(), place_.ordinal, memory_));
}

Result<GpuGroup> GpuGroup::Start(Ref<DevicePlugin> plugin) {
  TUTTI_ASSIGN_OR_RETURN(const auto* const api, CommunicatorsOf(*plugin));
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(api->group_start(plugin->handle())));
  return GpuGroup(std::move(plugin));
}

GpuGroup::~GpuGroup() {
  if (!plugin_) return;
  (void)End();
}

Status GpuGroup::End(const GpuWait& wait) {
  const Ref<DevicePlugin> plugin = std::move(plugin_);
  if (!plugin) return OkStatus();
  return WaitInPlugin(wait, "a group of operations of GPUs", [&](const auto* stop) {
    return plugin->api().communicators->group_end(plugin->handle(), stop);
  });
}

}  // namespace tutti

// The life of communicators: how they are made, out of nothing and of each other, asked and given
// up. None blocks: NCCL does what takes long on a thread of its own, and is asked how far it is.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cuda/communicator.h"

namespace tutti::cuda {
namespace {

using State = CommunicatorState;

using Handle = std::unique_ptr<tutti_plugin_communicator>;

Handle MakeHandle(tutti_plugin* plugin, int32_t device, int32_t rank, int32_t num_ranks) {
  auto state = std::make_shared<State>();
  state->plugin = plugin;
  state->device = device;
  state->rank = rank;
  state->num_ranks = num_ranks;
  Communicators& all = *plugin->communicators;
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.alive, [](const auto& one) { return one.expired(); });
  all.alive.push_back(state);
  return std::make_unique<tutti_plugin_communicator>(std::move(state));
}

tutti_status* CheckConfig(tutti_plugin* plugin, const tutti_plugin_communicator_config& config) {
  TUTTI_CUDA_RETURN_IF(plugin->CheckDevice(config.device));
  if (config.num_ranks < 1 || config.rank < 0 || config.rank >= config.num_ranks) {
    return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                        "a communicator of " + std::to_string(config.num_ranks) +
                            " ranks has no rank " + std::to_string(config.rank) +
                            "; ranks go from 0 to the number less 1");
  }
  if (config.min_blocks < 0 || config.max_blocks < 0) {
    return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                        "NCCL cannot take " + std::to_string(config.min_blocks) + " to " +
                            std::to_string(config.max_blocks) +
                            " blocks; pass numbers above 0, or 0 for its own choice");
  }
  return nullptr;
}

nccl::UniqueId IdOf(const unsigned char* bytes) {
  nccl::UniqueId id;
  static_assert(sizeof(id) == TUTTI_PLUGIN_COMMUNICATOR_ID_BYTES);
  std::memcpy(id.bytes, bytes, sizeof(id.bytes));
  return id;
}

nccl::Config ConfigOf(const tutti_plugin_communicator_config& config) {
  nccl::Config made;
  if (config.min_blocks > 0) made.min_ctas = config.min_blocks;
  if (config.max_blocks > 0) made.max_ctas = config.max_blocks;
  return made;
}

// Begins one for whom there is none yet: `begin` calls NCCL with where the handle goes.
template <class BeginCall>
tutti_status* BeginNew(tutti_plugin* plugin, const tutti_plugin_communicator_config* config,
                       const char* function, tutti_plugin_communicator** out, BeginCall begin) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(StartNccl(plugin));
    TUTTI_CUDA_RETURN_IF(CheckConfig(plugin, *config));
    Current current(plugin, config->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    Handle handle = MakeHandle(plugin, config->device, config->rank, config->num_ranks);
    State& state = *handle->state;
    nccl::Config options = ConfigOf(*config);
    {
      const std::lock_guard lock(state.mutex);
      TUTTI_CUDA_RETURN_IF(CheckUsable(state));
      const nccl::Outcome outcome = begin(plugin->communicators->library, &state.comm, &options);
      if (WasRefused(outcome)) return FailWith(&state, outcome, function);
    }
    *out = handle.release();
    return nullptr;
  });
}

tutti_status* Create(tutti_plugin* plugin, const tutti_plugin_communicator_config* config,
                     tutti_plugin_communicator** out) {
  return BeginNew(plugin, config, "ncclCommInitRankConfig", out,
                  [&](const nccl::Library& library, nccl::Comm* comm, nccl::Config* options) {
                    return library.CommInitRankConfig(comm, config->num_ranks, IdOf(config->id),
                                                      config->rank, options);
                  });
}

tutti_status* Join(tutti_plugin* plugin, const tutti_plugin_communicator_config* config,
                   tutti_plugin_communicator** out) {
  TUTTI_CUDA_RETURN_IF(StartNccl(plugin));
  if (plugin->communicators->library.CommGrow == nullptr) {
    return Lacks(plugin, "ncclCommGrow", "2.29");
  }
  return BeginNew(plugin, config, "ncclCommGrow", out,
                  [&](const nccl::Library& library, nccl::Comm* comm, nccl::Config* options) {
                    const nccl::UniqueId id = IdOf(config->id);
                    return library.CommGrow(nullptr, config->num_ranks, &id, config->rank, comm,
                                            options);
                  });
}

tutti_status* GetUniqueId(tutti_plugin* plugin, unsigned char* out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(StartNccl(plugin));
    nccl::UniqueId id;
    const nccl::Outcome outcome = plugin->communicators->library.GetUniqueId(&id);
    if (outcome != nccl::kSuccess) {
      return FailOfNccl(plugin, 0, outcome, nullptr, "ncclGetUniqueId");
    }
    CloseListenerOnExec(id);
    std::memcpy(out, id.bytes, sizeof(id.bytes));
    return nullptr;
  });
}

// Begins one that `begin` makes of another.
template <class BeginCall>
tutti_status* BeginFrom(tutti_plugin_communicator* communicator, const char* function,
                        tutti_plugin_communicator** out, BeginCall begin) {
  State& parent = *communicator->state;
  return Guarded(parent.plugin, [&]() -> tutti_status* {
    Current current(parent.plugin, parent.device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    Handle handle = MakeHandle(parent.plugin, parent.device, parent.rank, parent.num_ranks);
    State& state = *handle->state;
    state.parent = communicator->state;
    {
      const std::lock_guard lock(parent.mutex);
      // A revoked one is good for this.
      if (parent.state != TUTTI_PLUGIN_COMMUNICATOR_REVOKED) {
        TUTTI_CUDA_RETURN_IF(CheckUsable(parent));
      }
      parent.children.push_back(handle->state);
      const std::lock_guard own(state.mutex);
      state.settled = false;
      const nccl::Outcome outcome = begin(parent.library(), parent.comm, &state.comm);
      if (WasRefused(outcome)) return FailWith(&parent, outcome, function);
    }
    *out = handle.release();
    return nullptr;
  });
}

tutti_status* Split(tutti_plugin_communicator* communicator, int32_t color, int32_t key,
                    tutti_plugin_communicator** out) {
  State& parent = *communicator->state;
  if (color < TUTTI_PLUGIN_NO_COLOR) {
    return parent.plugin->Fail(TUTTI_INVALID_ARGUMENT,
                               "split: color " + std::to_string(color) +
                                   " is negative; -1 is for ranks that are in none");
  }
  tutti_plugin_communicator* made = nullptr;
  TUTTI_CUDA_RETURN_IF(
      BeginFrom(communicator, "ncclCommSplit", &made,
                [&](const nccl::Library& library, nccl::Comm comm, nccl::Comm* child) {
                  return library.CommSplit(comm, color, key, child, nullptr);
                }));
  *out = made;
  if (color != TUTTI_PLUGIN_NO_COLOR) return nullptr;
  // It has nothing to wait for but the split itself.
  made->state->state = TUTTI_PLUGIN_COMMUNICATOR_ABORTED;
  delete made;
  *out = nullptr;
  return nullptr;
}

tutti_status* Shrink(tutti_plugin_communicator* communicator, const int32_t* left_out,
                     int32_t count, int32_t aborting, tutti_plugin_communicator** out) {
  State& parent = *communicator->state;
  if (parent.library().CommShrink == nullptr) {
    return Lacks(parent.plugin, "ncclCommShrink", "2.27");
  }
  std::vector<int32_t> ranks(left_out, left_out + std::max(count, 0));
  for (const int32_t rank : ranks) {
    if (rank >= 0 && rank < parent.num_ranks && rank != parent.rank) continue;
    return parent.plugin->Fail(TUTTI_INVALID_ARGUMENT,
                               "shrink: " + NameOf(parent) + " cannot leave out rank " +
                                   std::to_string(rank) + "; name others of its ranks");
  }
  if (ranks.empty()) {
    return parent.plugin->Fail(TUTTI_INVALID_ARGUMENT, "shrink: there is no rank to leave out");
  }
  if (aborting != 0) {
    // What had failed is good for this, too, and for nothing else afterwards.
    const std::lock_guard lock(parent.mutex);
    if (parent.state != TUTTI_PLUGIN_COMMUNICATOR_FAILED) {
      TUTTI_CUDA_RETURN_IF(CheckUsable(parent));
    }
    parent.state = TUTTI_PLUGIN_COMMUNICATOR_REVOKED;
  }
  return BeginFrom(communicator, "ncclCommShrink", out,
                   [&](const nccl::Library& library, nccl::Comm comm, nccl::Comm* child) {
                     return library.CommShrink(comm, ranks.data(),
                                               static_cast<int32_t>(ranks.size()), child, nullptr,
                                               aborting != 0 ? nccl::kShrinkAborting : 0);
                   });
}

tutti_status* GrowId(tutti_plugin_communicator* communicator, unsigned char* out) {
  State& state = *communicator->state;
  return Guarded(state.plugin, [&]() -> tutti_status* {
    if (state.library().CommGrow == nullptr) return Lacks(state.plugin, "ncclCommGrow", "2.29");
    const std::lock_guard lock(state.mutex);
    TUTTI_CUDA_RETURN_IF(CheckUsable(state));
    nccl::UniqueId id;
    const nccl::Outcome outcome = state.library().CommGetUniqueId(state.comm, &id);
    if (WasRefused(outcome)) return FailWith(&state, outcome, "ncclCommGetUniqueId");
    CloseListenerOnExec(id);
    std::memcpy(out, id.bytes, sizeof(id.bytes));
    return nullptr;
  });
}

tutti_status* Grow(tutti_plugin_communicator* communicator, int32_t num_ranks,
                   const unsigned char* id, tutti_plugin_communicator** out) {
  State& parent = *communicator->state;
  if (parent.library().CommGrow == nullptr) return Lacks(parent.plugin, "ncclCommGrow", "2.29");
  if (num_ranks <= parent.num_ranks) {
    return parent.plugin->Fail(TUTTI_INVALID_ARGUMENT,
                               "grow: " + NameOf(parent) + " cannot grow to " +
                                   std::to_string(num_ranks) + " ranks; pass more than it has");
  }
  return BeginFrom(communicator, "ncclCommGrow", out,
                   [&](const nccl::Library& library, nccl::Comm comm, nccl::Comm* child) {
                     nccl::UniqueId given = {};
                     if (id != nullptr) given = IdOf(id);
                     return library.CommGrow(comm, num_ranks, id != nullptr ? &given : nullptr, -1,
                                             child, nullptr);
                   });
}

// Waits until the one that this is made of is through.
tutti_status* Settle(State* state, const tutti_plugin_wait* wait) {
  {
    const std::lock_guard lock(state->mutex);
    if (state->settled) return nullptr;
  }
  const std::shared_ptr<State> parent = state->parent.lock();
  if (!parent) {
    return state->plugin->Fail(TUTTI_ABORTED,
                               NameOf(*state) + ": the communicator that it was to be made of is "
                                                "gone; destroy that one later");
  }
  TUTTI_CUDA_RETURN_IF(AwaitIdle(parent.get(), wait, "making a communicator of it"));
  std::vector<std::shared_ptr<State>> children;
  {
    const std::lock_guard lock(parent->mutex);
    children = std::exchange(parent->children, {});
  }
  for (const auto& child : children) {
    const std::lock_guard lock(child->mutex);
    child->settled = true;
  }
  return nullptr;
}

tutti_status* AwaitReady(tutti_plugin_communicator* communicator, const tutti_plugin_wait* wait) {
  State& state = *communicator->state;
  return Guarded(state.plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(Settle(&state, wait));
    TUTTI_CUDA_RETURN_IF(AwaitIdle(&state, wait, "making the communicator"));
    const std::lock_guard lock(state.mutex);
    TUTTI_CUDA_RETURN_IF(CheckUsable(state));
    if (state.state != TUTTI_PLUGIN_COMMUNICATOR_BEGUN) return nullptr;
    int32_t rank = 0, count = 0;
    nccl::Outcome outcome = state.library().CommUserRank(state.comm, &rank);
    if (outcome == nccl::kSuccess) outcome = state.library().CommCount(state.comm, &count);
    if (outcome != nccl::kSuccess) return FailWith(&state, outcome, "ncclCommCount");
    state.rank = rank;
    state.num_ranks = count;
    state.state = TUTTI_PLUGIN_COMMUNICATOR_READY;
    return nullptr;
  });
}

tutti_status* Info(tutti_plugin_communicator* communicator, tutti_plugin_communicator_info* out) {
  const State& state = *communicator->state;
  tutti_plugin_communicator_info known = {};
  known.struct_size = out->struct_size;
  known.device = state.device;
  known.rank = state.rank;
  known.num_ranks = state.num_ranks;
  known.state = state.state;
  std::memcpy(out, &known, std::min(out->struct_size, sizeof(known)));
  return nullptr;
}

tutti_status* Poll(tutti_plugin_communicator* communicator) {
  State& state = *communicator->state;
  return Guarded(state.plugin, [&]() -> tutti_status* {
    const std::unique_lock lock(state.mutex, std::try_to_lock);
    // Its own thread is inside NCCL with it and will hear of an error.
    if (!lock.owns_lock()) return nullptr;
    if (state.state == TUTTI_PLUGIN_COMMUNICATOR_FINALIZED ||
        state.state == TUTTI_PLUGIN_COMMUNICATOR_REVOKED) {
      return nullptr;
    }
    TUTTI_CUDA_RETURN_IF(CheckUsable(state));
    nccl::Outcome error = nccl::kSuccess;
    if (!state.settled || state.comm == nullptr) return nullptr;
    const nccl::Outcome outcome = state.library().CommGetAsyncError(state.comm, &error);
    if (outcome != nccl::kSuccess) return FailWith(&state, outcome, "ncclCommGetAsyncError");
    return WasRefused(error) ? FailWith(&state, error, "its work") : nullptr;
  });
}

tutti_status* Revoke(tutti_plugin_communicator* communicator, const tutti_plugin_wait* wait) {
  const nccl::Library& library = communicator->state->library();
  if (library.CommRevoke == nullptr) {
    return Lacks(communicator->state->plugin, "ncclCommRevoke", "2.28");
  }
  State& state = *communicator->state;
  return Guarded(state.plugin, [&]() -> tutti_status* {
    {
      const std::lock_guard lock(state.mutex);
      if (state.state == TUTTI_PLUGIN_COMMUNICATOR_REVOKED) return nullptr;
      if (state.state != TUTTI_PLUGIN_COMMUNICATOR_FAILED) {
        TUTTI_CUDA_RETURN_IF(CheckUsable(state));
      }
      const nccl::Outcome outcome = library.CommRevoke(state.comm, 0);
      if (WasRefused(outcome)) return FailWith(&state, outcome, "ncclCommRevoke");
      state.state = TUTTI_PLUGIN_COMMUNICATOR_REVOKED;
    }
    return AwaitIdle(&state, wait, "ncclCommRevoke");
  });
}

tutti_status* Finalize(tutti_plugin_communicator* communicator, const tutti_plugin_wait* wait) {
  State& state = *communicator->state;
  return Guarded(state.plugin, [&]() -> tutti_status* {
    {
      const std::lock_guard lock(state.mutex);
      if (state.state == TUTTI_PLUGIN_COMMUNICATOR_FINALIZED) return nullptr;
      TUTTI_CUDA_RETURN_IF(CheckUsable(state));
      const nccl::Outcome outcome = state.library().CommFinalize(state.comm);
      if (WasRefused(outcome)) return FailWith(&state, outcome, "ncclCommFinalize");
    }
    TUTTI_CUDA_RETURN_IF(AwaitIdle(&state, wait, "ncclCommFinalize"));
    const std::lock_guard lock(state.mutex);
    TUTTI_CUDA_RETURN_IF(CheckUsable(state));
    state.state = TUTTI_PLUGIN_COMMUNICATOR_FINALIZED;
    return nullptr;
  });
}

void Destroy(tutti_plugin_communicator* communicator) {
  if (communicator == nullptr) return;
  const std::unique_ptr<tutti_plugin_communicator> owned(communicator);
  const std::shared_ptr<State> state = communicator->state;
  tutti_plugin* const plugin = state->plugin;
  tutti_status* status = nullptr;
  if (state->state == TUTTI_PLUGIN_COMMUNICATOR_FINALIZED) {
    const std::lock_guard lock(state->mutex);
    state->library().CommDestroy(std::exchange(state->comm, nullptr));
    state->state = TUTTI_PLUGIN_COMMUNICATOR_ABORTED;
  } else if (state->state != TUTTI_PLUGIN_COMMUNICATOR_ABORTED) {
    using std::chrono::steady_clock;
    struct Limit {
      const tutti_plugin* plugin;
      steady_clock::time_point end;
    } limit{plugin, steady_clock::now() + std::chrono::seconds(10)};
    tutti_plugin_wait wait = {};
    wait.struct_size = sizeof(wait);
    wait.user_data = &limit;
    wait.stop = [](void* user_data) -> tutti_status* {
      const auto& [of, end] = *static_cast<const Limit*>(user_data);
      return steady_clock::now() < end ? nullptr
                                       : of->Fail(TUTTI_DEADLINE_EXCEEDED, "10 s are over");
    };
    status = Guarded(plugin, [&] { return AbortAll(plugin, {state}, &wait); });
  }
  // The log has what there is to say.
  if (status != nullptr) plugin->host->release_status(plugin->host->context, status);
}

}  // namespace

const nccl::Library& CommunicatorState::library() const { return plugin->communicators->library; }

tutti_status* Lacks(tutti_plugin* plugin, const char* function, const char* since) {
  return plugin->Fail(TUTTI_UNIMPLEMENTED,
                      "NCCL " + nccl::VersionText(plugin->communicators->library.version) +
                          " has no " + function + ": " + since + " or newer has");
}

std::string NameOf(const CommunicatorState& communicator) {
  return DeviceName(communicator.device) + ", rank " + std::to_string(communicator.rank) + " of " +
         std::to_string(communicator.num_ranks);
}

tutti_status* CheckUsable(const CommunicatorState& communicator) {
  const auto fail = [&](int32_t code, const char* message) {
    return communicator.plugin->Fail(code, NameOf(communicator) + message);
  };
  switch (communicator.state) {
    case TUTTI_PLUGIN_COMMUNICATOR_FAILED:
      return communicator.plugin->Fail(communicator.failed_code, communicator.failure);
    case TUTTI_PLUGIN_COMMUNICATOR_REVOKED:
      return fail(TUTTI_ABORTED, ": the communicator was revoked; shrink or split it");
    case TUTTI_PLUGIN_COMMUNICATOR_FINALIZED:
      return fail(TUTTI_FAILED_PRECONDITION, ": the communicator was finalized; make a new one");
    case TUTTI_PLUGIN_COMMUNICATOR_ABORTED:
      return fail(TUTTI_ABORTED, ": the communicator was aborted; make a new one");
    default:
      return nullptr;
  }
}

tutti_status* FailOfNccl(tutti_plugin* plugin, int32_t device, nccl::Outcome outcome,
                         nccl::Comm comm, const std::string& what, int32_t* out_code,
                         std::string* out_message) {
  std::string message = what + ": " + plugin->communicators->library.Describe(outcome, comm);
  int32_t code = TUTTI_INTERNAL;
  if (outcome == nccl::kInvalidArgument || outcome == nccl::kInvalidUsage) {
    code = TUTTI_INVALID_ARGUMENT;
  } else if (outcome == nccl::kTimeout) {
    code = TUTTI_DEADLINE_EXCEEDED;
  } else if (outcome == nccl::kRemoteError) {
    code = TUTTI_UNAVAILABLE;
    message += "; another rank has failed or is gone: its log says why, abort this communicator";
  } else if (outcome == nccl::kUnhandledCudaError) {
    // What the driver says is more than that something was unhandled.
    Current current(plugin, device);
    const Outcome driver = plugin->driver.StreamQuery(nullptr);
    if (driver >= kFirstPoison && driver <= kLastPoison) {
      code = TUTTI_DATA_LOSS;
      message += "; the driver says " + plugin->driver.Describe(driver) +
                 ": this process cannot use the device any more, start it again";
    }
  }
  if (out_code != nullptr) *out_code = code;
  if (out_message != nullptr) *out_message = message;
  return plugin->Fail(code, message);
}

tutti_status* FailWith(CommunicatorState* communicator, nccl::Outcome outcome,
                       const std::string& what) {
  tutti_status* const status =
      FailOfNccl(communicator->plugin, communicator->device, outcome, communicator->comm,
                 NameOf(*communicator) + ": " + what, &communicator->failed_code,
                 &communicator->failure);
  communicator->state = TUTTI_PLUGIN_COMMUNICATOR_FAILED;
  return status;
}

tutti_status* AwaitIdle(CommunicatorState* communicator, const tutti_plugin_wait* wait,
                        const std::string& what) {
  return AskUntil(wait, [&](tutti_status** status) {
    const std::lock_guard lock(communicator->mutex);
    if (communicator->state != TUTTI_PLUGIN_COMMUNICATOR_REVOKED) {
      *status = CheckUsable(*communicator);
    }
    if (*status != nullptr) return true;
    if (communicator->comm == nullptr) {
      *status = communicator->plugin->Fail(
          TUTTI_INTERNAL, NameOf(*communicator) + ": NCCL has made no communicator");
      return true;
    }
    nccl::Outcome error = nccl::kSuccess;
    nccl::Outcome outcome = communicator->library().CommGetAsyncError(communicator->comm, &error);
    if (outcome == nccl::kSuccess) outcome = error;
    if (outcome == nccl::kInProgress) return false;
    if (outcome != nccl::kSuccess) *status = FailWith(communicator, outcome, what);
    return true;
  });
}

const tutti_plugin_communicator_api kCommunicators = {
    sizeof(tutti_plugin_communicator_api),
    DescribeNccl,
    Configure,
    GetUniqueId,
    Create,
    AwaitReady,
    Info,
    Poll,
    StartGroup,
    EndGroup,
    AllReduce,
    ReduceToRoot,
    Broadcast,
    AllGather,
    ReduceScatter,
    Send,
    Receive,
    Split,
    Shrink,
    GrowId,
    Grow,
    Join,
    Revoke,
    Finalize,
    Abort,
    Destroy,
    AllocateRegistered,
    ReleaseRegistered,
    RegisterMemory,
    UnregisterMemory,
    NumQuarantined,
};

}  // namespace tutti::cuda

// Operations of communicators: what is checked before NCCL sees them, in which of its types they
// go, and groups. NCCL takes a group's operations when the group ends, and in the meantime keeps
// addresses of their communicators; so nobody may abort one of them until then.
#include <tutti/context.h>
#include <tutti/tensor.h>

#include <utility>

#include "core/cuda/communicator.h"

namespace tutti::cuda {
namespace {

// A group of the calling thread.
struct ThreadGroup {
  int32_t depth = 0;
  std::vector<std::shared_ptr<CommunicatorState>> members;
};
thread_local ThreadGroup group;

// How NCCL sees `elements` of a dtype.
struct AsNccl {
  nccl::DataType type;
  uint64_t times;  // NCCL's elements for each of ours
};

// For what is only moved: by the size of an element.
bool ToMove(int32_t dtype, AsNccl* out) {
  switch (ItemBytes(dtype)) {
    case 1:
      *out = {nccl::kUint8, 1};
      return true;
    case 2:
      *out = {nccl::kFloat16, 1};
      return true;
    case 4:
      *out = {nccl::kUint32, 1};
      return true;
    case 8:
      *out = {nccl::kUint64, 1};
      return true;
    case 16:
      *out = {nccl::kUint64, 2};
      return true;
    default:
      return false;
  }
}

bool ToFold(int32_t op, int32_t dtype, AsNccl* out, nccl::Operation* out_op) {
  switch (op) {
    case TUTTI_REDUCE_SUM:
      *out_op = nccl::kSum;
      break;
    case TUTTI_REDUCE_MEAN:
      *out_op = nccl::kAverage;
      break;
    case TUTTI_REDUCE_MIN:
      *out_op = nccl::kMin;
      break;
    case TUTTI_REDUCE_MAX:
      *out_op = nccl::kMax;
      break;
    case TUTTI_REDUCE_PROD:
      *out_op = nccl::kProd;
      break;
    default:
      return false;
  }
  const bool linear = op == TUTTI_REDUCE_SUM || op == TUTTI_REDUCE_MEAN;
  const bool extreme = op == TUTTI_REDUCE_MIN || op == TUTTI_REDUCE_MAX;
  const auto as = [&](bool possible, nccl::DataType type, uint64_t times = 1) {
    *out = {type, times};
    return possible;
  };
  const bool whole = op != TUTTI_REDUCE_MEAN;
  switch (dtype) {
    case TUTTI_DTYPE_BOOL:
      return as(extreme, nccl::kUint8);
    case TUTTI_DTYPE_INT8:
      return as(whole, nccl::kInt8);
    case TUTTI_DTYPE_INT32:
      return as(whole, nccl::kInt32);
    case TUTTI_DTYPE_INT64:
      return as(whole, nccl::kInt64);
    case TUTTI_DTYPE_UINT8:
      return as(whole, nccl::kUint8);
    case TUTTI_DTYPE_UINT32:
      return as(whole, nccl::kUint32);
    case TUTTI_DTYPE_UINT64:
      return as(whole, nccl::kUint64);
    case TUTTI_DTYPE_FLOAT16:
      return as(true, nccl::kFloat16);
    case TUTTI_DTYPE_BFLOAT16:
      return as(true, nccl::kBfloat16);
    case TUTTI_DTYPE_FLOAT32:
      return as(true, nccl::kFloat32);
    case TUTTI_DTYPE_FLOAT64:
      return as(true, nccl::kFloat64);
    case TUTTI_DTYPE_COMPLEX64:
      return as(linear, nccl::kFloat32, 2);
    case TUTTI_DTYPE_COMPLEX128:
      return as(linear, nccl::kFloat64, 2);
    default:
      return false;
  }
}

// One operation, as all of them are checked and begun.
class Call {
 public:
  Call(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream, const char* name,
       const tutti_plugin_wait* wait)
      : state_(communicator->state), stream_(stream), name_(name), wait_(wait) {}

  tutti_plugin* plugin() const { return state_->plugin; }
  tutti_status* Refuse(int32_t code, const std::string& why) const {
    return plugin()->Fail(code, NameOf(*state_) + ": " + name_ + ": " + why);
  }

  tutti_status* Move(int32_t dtype, AsNccl* out) const {
    if (ToMove(dtype, out)) return nullptr;
    return Refuse(dtype == TUTTI_DTYPE_BYTES ? TUTTI_UNIMPLEMENTED : TUTTI_INVALID_ARGUMENT,
                  DTypeText(dtype) + " cannot lie on a GPU");
  }
  tutti_status* Fold(int32_t op, int32_t dtype, AsNccl* out, nccl::Operation* out_op) const {
    if (op < TUTTI_REDUCE_SUM || op > TUTTI_REDUCE_BXOR) {
      return Refuse(TUTTI_INVALID_ARGUMENT,
                    std::to_string(op) + " is no reduction; TUTTI_REDUCE_* are 1 to 8");
    }
    if (ToFold(op, dtype, out, out_op)) return nullptr;
    AsNccl moved;
    if (!ToMove(dtype, &moved)) return Move(dtype, out);
    return Refuse(TUTTI_UNIMPLEMENTED, std::string("NCCL has no ") + ReductionText(op) + " of " +
                                           DTypeText(dtype) +
                                           "; gather and fold it by the plugin's kernels");
  }
  tutti_status* CheckRank(const char* what, int32_t rank) const {
    if (rank >= 0 && rank < state_->num_ranks) return nullptr;
    return Refuse(TUTTI_INVALID_ARGUMENT, std::string(what) + " " + std::to_string(rank) +
                                              "; ranks go from 0 to " +
                                              std::to_string(state_->num_ranks - 1));
  }
  tutti_status* CheckMemory(const void* memory, uint64_t elements, const char* what) const {
    if (memory != nullptr || elements == 0) return nullptr;
    return Refuse(TUTTI_INVALID_ARGUMENT, std::string("the address of ") + what + " is NULL");
  }
  int32_t rank() const { return state_->rank; }

  // Calls NCCL, and waits for what it has to prepare unless a group is open.
  template <class Begin>
  tutti_status* Run(Begin begin) const {
    if (stream_->plugin != plugin() || stream_->device != state_->device) {
      return Refuse(TUTTI_INVALID_ARGUMENT, "the stream is one of " + DeviceName(stream_->device) +
                                                "; pass one of " + DeviceName(state_->device));
    }
    Current current(plugin(), state_->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    bool waits = false;
    {
      const std::lock_guard lock(state_->mutex);
      TUTTI_CUDA_RETURN_IF(CheckUsable(*state_));
      if (state_->state == TUTTI_PLUGIN_COMMUNICATOR_BEGUN) {
        return Refuse(TUTTI_FAILED_PRECONDITION,
                      "the communicator is not ready; call await_ready first");
      }
      const nccl::Outcome outcome = begin(state_->library(), state_->comm, stream_->stream);
      if (outcome != nccl::kSuccess && outcome != nccl::kInProgress) {
        return FailWith(state_.get(), outcome, name_);
      }
      if (group.depth > 0) {
        if (!std::exchange(state_->in_group, true)) group.members.push_back(state_);
      } else {
        waits = outcome == nccl::kInProgress;
      }
    }
    return waits ? AwaitIdle(state_.get(), wait_, name_) : nullptr;
  }

 private:
  const std::shared_ptr<CommunicatorState>& state_;
  tutti_plugin_stream* const stream_;
  const char* const name_;
  const tutti_plugin_wait* const wait_;
};

}  // namespace

tutti_status* StartGroup(tutti_plugin* plugin) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(StartNccl(plugin));
    const nccl::Outcome outcome = plugin->communicators->library.GroupStart();
    if (outcome != nccl::kSuccess) return FailOfNccl(plugin, 0, outcome, nullptr, "ncclGroupStart");
    ++group.depth;
    return nullptr;
  });
}

tutti_status* EndGroup(tutti_plugin* plugin, const tutti_plugin_wait* wait) {
  return Guarded(plugin, [&]() -> tutti_status* {
    if (group.depth == 0) {
      return plugin->Fail(TUTTI_FAILED_PRECONDITION,
                          "group_end: this thread has no group; call group_start first");
    }
    --group.depth;
    const nccl::Outcome outcome = plugin->communicators->library.GroupEnd();
    if (group.depth > 0 && outcome == nccl::kSuccess) return nullptr;
    const auto members = std::exchange(group.members, {});
    for (const auto& member : members) {
      const std::lock_guard lock(member->mutex);
      member->in_group = false;
    }
    if (outcome != nccl::kSuccess && outcome != nccl::kInProgress) {
      if (members.empty()) return FailOfNccl(plugin, 0, outcome, nullptr, "ncclGroupEnd");
      // Whose fault it is NCCL does not say.
      tutti_status* first = nullptr;
      for (const auto& member : members) {
        const std::lock_guard lock(member->mutex);
        tutti_status* status = CheckUsable(*member);
        if (status == nullptr) status = FailWith(member.get(), outcome, "ncclGroupEnd");
        if (first == nullptr) std::swap(first, status);
        if (status != nullptr) plugin->host->release_status(plugin->host->context, status);
      }
      return first;
    }
    if (outcome == nccl::kSuccess) return nullptr;
    for (const auto& member : members) {
      TUTTI_CUDA_RETURN_IF(AwaitIdle(member.get(), wait, "a group of operations"));
    }
    return nullptr;
  });
}

tutti_status* AllReduce(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream,
                        int32_t op, int32_t dtype, const void* in, void* out, uint64_t elements,
                        const tutti_plugin_wait* wait) {
  const Call call(communicator, stream, "all_reduce", wait);
  return Guarded(call.plugin(), [&]() -> tutti_status* {
    AsNccl as;
    nccl::Operation fold;
    TUTTI_CUDA_RETURN_IF(call.Fold(op, dtype, &as, &fold));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(in, elements, "the input"));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(out, elements, "the output"));
    return call.Run([&](const nccl::Library& library, nccl::Comm comm, Stream on) {
      return library.AllReduce(in, out, elements * as.times, as.type, fold, comm, on);
    });
  });
}

tutti_status* ReduceToRoot(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream,
                           int32_t op, int32_t dtype, const void* in, void* out,
                           uint64_t elements, int32_t root, const tutti_plugin_wait* wait) {
  const Call call(communicator, stream, "reduce", wait);
  return Guarded(call.plugin(), [&]() -> tutti_status* {
    AsNccl as;
    nccl::Operation fold;
    TUTTI_CUDA_RETURN_IF(call.Fold(op, dtype, &as, &fold));
    TUTTI_CUDA_RETURN_IF(call.CheckRank("root", root));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(in, elements, "the input"));
    if (root == call.rank()) {
      TUTTI_CUDA_RETURN_IF(call.CheckMemory(out, elements, "the output"));
    }
    return call.Run([&](const nccl::Library& library, nccl::Comm comm, Stream on) {
      return library.Reduce(in, out, elements * as.times, as.type, fold, root, comm, on);
    });
  });
}

tutti_status* Broadcast(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream,
                        int32_t dtype, const void* in, void* out, uint64_t elements, int32_t root,
                        const tutti_plugin_wait* wait) {
  const Call call(communicator, stream, "broadcast", wait);
  return Guarded(call.plugin(), [&]() -> tutti_status* {
    AsNccl as;
    TUTTI_CUDA_RETURN_IF(call.Move(dtype, &as));
    TUTTI_CUDA_RETURN_IF(call.CheckRank("root", root));
    if (root == call.rank()) {
      TUTTI_CUDA_RETURN_IF(call.CheckMemory(in, elements, "the input"));
    }
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(out, elements, "the output"));
    return call.Run([&](const nccl::Library& library, nccl::Comm comm, Stream on) {
      return library.Broadcast(in, out, elements * as.times, as.type, root, comm, on);
    });
  });
}

tutti_status* AllGather(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream,
                        int32_t dtype, const void* in, void* out, uint64_t elements,
                        const tutti_plugin_wait* wait) {
  const Call call(communicator, stream, "all_gather", wait);
  return Guarded(call.plugin(), [&]() -> tutti_status* {
    AsNccl as;
    TUTTI_CUDA_RETURN_IF(call.Move(dtype, &as));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(in, elements, "the input"));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(out, elements, "the output"));
    return call.Run([&](const nccl::Library& library, nccl::Comm comm, Stream on) {
      return library.AllGather(in, out, elements * as.times, as.type, comm, on);
    });
  });
}

tutti_status* ReduceScatter(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream,
                            int32_t op, int32_t dtype, const void* in, void* out,
                            uint64_t elements, const tutti_plugin_wait* wait) {
  const Call call(communicator, stream, "reduce_scatter", wait);
  return Guarded(call.plugin(), [&]() -> tutti_status* {
    AsNccl as;
    nccl::Operation fold;
    TUTTI_CUDA_RETURN_IF(call.Fold(op, dtype, &as, &fold));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(in, elements, "the input"));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(out, elements, "the output"));
    return call.Run([&](const nccl::Library& library, nccl::Comm comm, Stream on) {
      return library.ReduceScatter(in, out, elements * as.times, as.type, fold, comm, on);
    });
  });
}

tutti_status* Send(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream,
                   int32_t dtype, const void* in, uint64_t elements, int32_t peer,
                   const tutti_plugin_wait* wait) {
  const Call call(communicator, stream, "send", wait);
  return Guarded(call.plugin(), [&]() -> tutti_status* {
    AsNccl as;
    TUTTI_CUDA_RETURN_IF(call.Move(dtype, &as));
    TUTTI_CUDA_RETURN_IF(call.CheckRank("peer", peer));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(in, elements, "the input"));
    return call.Run([&](const nccl::Library& library, nccl::Comm comm, Stream on) {
      return library.Send(in, elements * as.times, as.type, peer, comm, on);
    });
  });
}

tutti_status* Receive(tutti_plugin_communicator* communicator, tutti_plugin_stream* stream,
                      int32_t dtype, void* out, uint64_t elements, int32_t peer,
                      const tutti_plugin_wait* wait) {
  const Call call(communicator, stream, "receive", wait);
  return Guarded(call.plugin(), [&]() -> tutti_status* {
    AsNccl as;
    TUTTI_CUDA_RETURN_IF(call.Move(dtype, &as));
    TUTTI_CUDA_RETURN_IF(call.CheckRank("peer", peer));
    TUTTI_CUDA_RETURN_IF(call.CheckMemory(out, elements, "the output"));
    return call.Run([&](const nccl::Library& library, nccl::Comm comm, Stream on) {
      return library.Recv(out, elements * as.times, as.type, peer, comm, on);
    });
  });
}

}  // namespace tutti::cuda

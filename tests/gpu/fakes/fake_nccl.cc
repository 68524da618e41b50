// NCCL over the fake driver's memory, under the names of libnccl.so.2: ranks are threads of one
// process, each with a device of its own. Operations run on the fake driver's streams, whose thread
// waits there for the other ranks as a kernel would; the last one to come does the work of all,
// with the CPU's fold. Sends are buffered.
//
// Like the real one it answers "in progress" to communicators that do not block, and puts
// operations on their streams only when that is over; it never ends what a dead rank left waiting
// unless it is told to abort; and what is wrong comes out of the next question, or not at all.
#include "tests/gpu/fakes/fake_nccl.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/fakes/fake_nccl_world.h"

using namespace tutti::fake;  // NOLINT

namespace {

constexpr size_t kNameOfId = 64;  // where in an id its name stands

int32_t memories = 0, ids = 0;
int32_t most_aborted = 0;              // in one group
std::map<std::string, int> listening;  // sockets of ids
std::string key;
thread_local std::vector<Communicator*> aborting;

}  // namespace

#define TUTTI_FAKE extern "C" __attribute__((visibility("default")))

TUTTI_FAKE void tutti_fake_nccl_set_faults(const NcclFaults* given) {
  const std::lock_guard lock(mutex);
  faults = *given;
  changed.notify_all();
}
TUTTI_FAKE int32_t tutti_fake_nccl_count_things() {
  const std::lock_guard lock(mutex);
  size_t registrations = 0;
  for (const Communicator* rank : alive) registrations += rank->registered.size();
  return static_cast<int32_t>(alive.size() + registrations) + memories;
}
TUTTI_FAKE int32_t tutti_fake_nccl_most_aborted() {
  const std::lock_guard lock(mutex);
  return std::exchange(most_aborted, 0);
}
TUTTI_FAKE int32_t tutti_fake_nccl_count_registered() {
  const std::lock_guard lock(mutex);
  size_t registrations = 0;
  for (const Communicator* rank : alive) registrations += rank->registered.size();
  return static_cast<int32_t>(registrations);
}
TUTTI_FAKE const char* tutti_fake_nccl_key() { return key.c_str(); }

TUTTI_FAKE Outcome ncclGetVersion(int32_t* version) {
  const std::lock_guard lock(mutex);
  *version = Version();
  return kSuccess;
}

TUTTI_FAKE const char* ncclGetErrorString(Outcome outcome) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress",
                                    "timeout"};
  return outcome >= 0 && outcome <= kTimeout ? kTexts[outcome] : "unknown result code";
}

TUTTI_FAKE const char* ncclGetLastError(Comm) { return last_error.c_str(); }

TUTTI_FAKE Outcome ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id, 0, sizeof(*id));
  // A port that listens, which child processes inherit: its address behind eight other bytes.
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (socket < 0 || bind(socket, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(socket, 1) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Refuse(kSystemError, "no port");
  }
  std::memcpy(id->bytes + 8, &address, sizeof(address));
  std::snprintf(id->bytes + kNameOfId, sizeof(id->bytes) - kNameOfId, "id%d.%d",
                static_cast<int>(getpid()), ++ids);
  listening[id->bytes + kNameOfId] = socket;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommInitRankConfig(Comm* comm, int32_t ranks, UniqueId id, int32_t rank,
                                          Config* config) {
  const std::lock_guard lock(mutex);
  if (config->size < sizeof(Config) || config->magic != kMagic || config->blocking != 0) {
    return Refuse(kInvalidArgument, "the configuration is none");
  }
  const int32_t device = CurrentDevice();
  if (device < 0) return Refuse(kUnhandledCudaError, "no context is current");
  const std::string name = id.bytes + kNameOfId;
  auto& world = worlds[name];
  if (world == nullptr) {
    world = MakeWorld(static_cast<size_t>(ranks));
    world->id = name;
    world->folder = FolderOfProcesses();
  }
  if (world->size != ranks || rank >= ranks || world->ranks[static_cast<size_t>(rank)]) {
    return Refuse(kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                        std::to_string(ranks) + " does not fit the others");
  }
  Communicator* const made = Make(world, rank, device);
  *comm = HandleOf(made);
  if (!world->folder.empty()) {
    ComeTo(*world, *made);
    return kInProgress;
  }
  if (world->come == world->size) {
    const auto heard = listening.find(name);
    if (heard != listening.end()) {
      close(heard->second);
      listening.erase(heard);
    }
    if (SharesDevice(*world)) {
      for (Communicator* one : world->ranks) {
        one->error = kInvalidUsage;
        one->why = "Duplicate GPU detected";
      }
    }
    worlds.erase(name);
  }
  changed.notify_all();
  return kInProgress;
}

TUTTI_FAKE Outcome ncclCommGetAsyncError(Comm comm, Outcome* error) {
  const std::lock_guard lock(mutex);
  Communicator* const rank = Of(comm);
  if (alive.count(rank) == 0) return Refuse(kInvalidArgument, "this communicator is gone");
  if (rank->world != nullptr && !rank->world->folder.empty() &&
      rank->world->come < rank->world->size) {
    rank->world->come = CountCome(*rank->world, nullptr);
    if (rank->world->come == rank->world->size && SharesDevice(*rank->world)) {
      rank->error = kInvalidUsage;
      rank->why = "Duplicate GPU detected";
    }
  }
  *error = rank->error;
  if (*error != kSuccess) {
    last_error = rank->why;
    return kSuccess;
  }
  const bool waits = rank->world == nullptr || rank->world->come < rank->world->size ||
                     rank->making || (rank->revoked && rank->running > 0) ||
                     (rank->finalized &&
                      (rank->running > 0 || rank->world->finalized < rank->world->size));
  if (waits || rank->in_progress > 0) {
    *error = kInProgress;
    if (waits || --rank->in_progress > 0) return kSuccess;
  }
  for (Batch& batch : std::exchange(rank->prepared, {})) Launch(std::move(batch));
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommCount(Comm comm, int32_t* count) {
  const std::lock_guard lock(mutex);
  *count = Of(comm)->world->size;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommUserRank(Comm comm, int32_t* rank) {
  const std::lock_guard lock(mutex);
  *rank = Of(comm)->rank;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommFinalize(Comm comm) {
  const std::lock_guard lock(mutex);
  Communicator* const rank = Of(comm);
  if (rank->revoked || rank->finalized) return Refuse(kInvalidUsage, "it cannot be finalized now");
  rank->finalized = true;
  ++rank->world->finalized;
  changed.notify_all();
  return kInProgress;
}

TUTTI_FAKE Outcome ncclCommDestroy(Comm comm) {
  std::unique_lock lock(mutex);
  WaitForEnd(lock, Of(comm));
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommAbort(Comm comm) {
  std::unique_lock lock(mutex);
  Communicator* const rank = Of(comm);
  if (alive.count(rank) == 0) return Refuse(kInvalidArgument, "this communicator is gone");
  rank->ends = true;
  rank->prepared.clear();
  changed.notify_all();
  if (depth > 0) {
    aborting.push_back(rank);
  } else {
    most_aborted = std::max(most_aborted, 1);
    WaitForEnd(lock, rank);
  }
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommRevoke(Comm comm, int32_t flags) {
  const std::lock_guard lock(mutex);
  if (flags != 0) return Refuse(kInvalidArgument, "flags are reserved");
  Communicator* const rank = Of(comm);
  rank->revoked = rank->ends = true;
  rank->error = kSuccess;
  rank->prepared.clear();
  changed.notify_all();
  return kInProgress;
}

TUTTI_FAKE Outcome ncclCommSplit(Comm comm, int32_t color, int32_t order, Comm* made, Config*) {
  const std::lock_guard lock(mutex);
  return BeginMaking(comm, static_cast<size_t>(Of(comm)->world->size), color, order, made);
}

TUTTI_FAKE Outcome ncclCommShrink(Comm comm, int32_t* left_out, int32_t count, Comm* made, Config*,
                                  int32_t flags) {
  const std::lock_guard lock(mutex);
  if (count <= 0 || left_out == nullptr) return Refuse(kInvalidArgument, "nobody is left out");
  if (flags == kShrinkAborting) {
    Of(comm)->ends = true;
    Of(comm)->error = kSuccess;
    changed.notify_all();
  }
  return BeginMaking(comm, static_cast<size_t>(Of(comm)->world->size - count), 0, 0, made);
}

TUTTI_FAKE Outcome ncclCommGetUniqueId(Comm comm, UniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->bytes + kNameOfId, sizeof(id->bytes) - kNameOfId, "grow id %d", ++ids);
  worlds[id->bytes + kNameOfId] = Of(comm)->world;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommGrow(Comm comm, int32_t ranks, const UniqueId* id, int32_t rank,
                                Comm* made, Config*) {
  const std::lock_guard lock(mutex);
  if (comm != nullptr) {
    return BeginMaking(comm, static_cast<size_t>(ranks), 0, Of(comm)->rank, made);
  }
  const auto found = worlds.find(id->bytes + kNameOfId);
  if (found == worlds.end()) return Refuse(kInvalidArgument, "nobody grows by this id");
  World& world = *found->second;
  Communicator* const joining = Make(nullptr, rank, CurrentDevice());
  *made = HandleOf(joining);
  uint64_t number = 0;
  for (const Communicator* one : world.ranks) {
    if (one == nullptr) continue;
    // The one that is being made, or is next.
    number = one->making ? one->makings - 1 : one->makings;
    if (one->making) break;
  }
  Making& making = world.makings[number];
  making.expected = static_cast<size_t>(ranks);
  making.parts.push_back({nullptr, 0, rank, nullptr, joining});
  FinishMaking(&world, number);
  return kInProgress;
}

TUTTI_FAKE Outcome ncclMemAlloc(void** memory, size_t bytes) {
  uint64_t address = 0;
  if (OfDriver<int32_t (*)(uint64_t*, size_t)>("cuMemAlloc_v2")(&address, bytes) != 0) {
    return Refuse(kUnhandledCudaError, "out of memory");
  }
  *memory = reinterpret_cast<void*>(address);
  const std::lock_guard lock(mutex);
  ++memories;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclMemFree(void* memory) {
  {
    const std::lock_guard lock(mutex);
    for (const Communicator* rank : alive) {
      if (rank->registered.count(memory) != 0) {
        return Refuse(kInvalidUsage, "the memory is registered still");
      }
    }
  }
  if (OfDriver<int32_t (*)(uint64_t)>("cuMemFree_v2")(reinterpret_cast<uint64_t>(memory)) != 0) {
    return Refuse(kInvalidArgument, "no such memory");
  }
  const std::lock_guard lock(mutex);
  --memories;
  return kSuccess;
}

namespace {

Outcome Register(Comm comm, void* memory, void** handle) {
  const std::lock_guard lock(mutex);
  if (alive.count(Of(comm)) == 0) return Refuse(kInvalidArgument, "this communicator is gone");
  Of(comm)->registered.insert(memory);
  *handle = memory;
  return kSuccess;
}

Outcome Deregister(Comm comm, void* handle) {
  const std::lock_guard lock(mutex);
  if (alive.count(Of(comm)) == 0) return Refuse(kInvalidArgument, "this communicator is gone");
  auto& registered = Of(comm)->registered;
  const auto found = registered.find(handle);
  if (found == registered.end()) return Refuse(kInvalidArgument, "nobody has registered that");
  registered.erase(found);
  return kSuccess;
}

}  // namespace

TUTTI_FAKE Outcome ncclCommRegister(Comm comm, void* memory, size_t, void** handle) {
  return Register(comm, memory, handle);
}
TUTTI_FAKE Outcome ncclCommDeregister(Comm comm, void* handle) { return Deregister(comm, handle); }
TUTTI_FAKE Outcome ncclCommWindowRegister(Comm comm, void* memory, size_t, Window* window,
                                          int32_t) {
  void* handle = nullptr;
  const Outcome outcome = Register(comm, memory, &handle);
  *window = static_cast<Window>(handle);
  return outcome;
}
TUTTI_FAKE Outcome ncclCommWindowDeregister(Comm comm, Window window) {
  return Deregister(comm, window);
}

TUTTI_FAKE Outcome ncclSetEncryption(const Encryption* config) {
  const std::lock_guard lock(mutex);
  if (config->size != sizeof(Encryption) || config->magic != kMagic || config->mode != 1) {
    return Refuse(kInvalidArgument, "the configuration is none");
  }
  key = config->key;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclAllReduce(const void* in, void* out, size_t count, DataType type,
                                 Operation op, Comm comm, Stream stream) {
  return Add(comm, stream, {Call::kAllReduce, in, out, count, type, op, 0});
}
TUTTI_FAKE Outcome ncclReduce(const void* in, void* out, size_t count, DataType type, Operation op,
                              int32_t root, Comm comm, Stream stream) {
  return Add(comm, stream, {Call::kReduce, in, out, count, type, op, root});
}
TUTTI_FAKE Outcome ncclBroadcast(const void* in, void* out, size_t count, DataType type,
                                 int32_t root, Comm comm, Stream stream) {
  return Add(comm, stream, {Call::kBroadcast, in, out, count, type, kSum, root});
}
TUTTI_FAKE Outcome ncclAllGather(const void* in, void* out, size_t count, DataType type, Comm comm,
                                 Stream stream) {
  return Add(comm, stream, {Call::kAllGather, in, out, count, type, kSum, 0});
}
TUTTI_FAKE Outcome ncclReduceScatter(const void* in, void* out, size_t count, DataType type,
                                     Operation op, Comm comm, Stream stream) {
  return Add(comm, stream, {Call::kReduceScatter, in, out, count, type, op, 0});
}
TUTTI_FAKE Outcome ncclSend(const void* in, size_t count, DataType type, int32_t peer, Comm comm,
                            Stream stream) {
  return Add(comm, stream, {Call::kSend, in, nullptr, count, type, kSum, peer});
}
TUTTI_FAKE Outcome ncclRecv(void* out, size_t count, DataType type, int32_t peer, Comm comm,
                            Stream stream) {
  return Add(comm, stream, {Call::kRecv, nullptr, out, count, type, kSum, peer});
}

TUTTI_FAKE Outcome ncclGroupStart() {
  ++depth;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclGroupEnd() {
  if (depth == 0) return Refuse(kInvalidUsage, "there is no group");
  if (--depth > 0) return kSuccess;
  std::unique_lock lock(mutex);
  Outcome outcome = kSuccess;
  for (Batch& batch : std::exchange(grouped, {})) outcome = std::max(outcome, Prepare(batch));
  most_aborted = std::max(most_aborted, static_cast<int32_t>(aborting.size()));
  for (Communicator* rank : std::exchange(aborting, {})) WaitForEnd(lock, rank);
  return outcome;
}

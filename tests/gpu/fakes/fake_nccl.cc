// NCCL over the fake driver's memory, under the names of libnccl.so.2: ranks are threads of one
// process, each with a device of its own. Operations run on the fake driver's streams, whose thread
// waits there for the other ranks as a kernel would; the last one to come does the work of all,
// with the CPU's fold. Sends are buffered.
//
// Like the real one it answers "in progress" to communicators that do not block, and puts
// operations on their streams only when that is over; it never ends what a dead rank left waiting
// unless it is told to abort; and what is wrong comes out of the next question, or not at all.
#include "tests/gpu/fakes/fake_nccl.h"

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/nccl.h"
#include "core/tensor/reduce.h"

extern "C" const int32_t tutti_fake_nccl_version;  // of this library

namespace tutti::fake {
namespace {

using namespace cuda::nccl;  // NOLINT
using cuda::Stream;

struct Communicator;

// What all ranks bring to one collective operation.
struct Round {
  struct Part {
    Communicator* rank = nullptr;
    const void* in = nullptr;
    void* out = nullptr;
  };
  std::vector<Part> parts;
  size_t come = 0;
  bool done = false;
};

// What makes new communicators of a world: split, shrink or grow.
struct Making {
  struct Part {
    Communicator* rank;  // null: comes from outside
    int32_t color, key;
    Comm* made;
    Communicator* joining;  // comes from outside
  };
  std::vector<Part> parts;
  size_t expected = 0;
};

// The ranks of one communicator.
struct World {
  int32_t size = 0;
  std::vector<Communicator*> ranks;  // null: not yet, or no more
  int32_t come = 0;
  int32_t finalized = 0;
  std::map<uint64_t, Round> rounds;
  std::map<uint64_t, Making> makings;
  std::map<std::pair<int32_t, int32_t>, std::deque<std::vector<char>>> mail;  // from, to
  int32_t grows_to = 0;
};

struct Operation_ {
  enum Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kRecv } kind;
  const void* in;
  void* out;
  size_t count;
  DataType type;
  Operation op;
  int32_t peer;  // or the root
};

// Several at once: those of one group on one stream.
struct Batch {
  Communicator* rank;
  Stream stream;
  std::vector<Operation_> operations;
};

struct Communicator {
  std::shared_ptr<World> world;
  int32_t rank = 0;
  int32_t device = 0;
  Outcome error = kSuccess;
  int32_t in_progress = 0;        // questions that are answered so
  std::vector<Batch> prepared;    // go to their streams when that is over
  int32_t running = 0;            // batches on streams
  uint64_t rounds = 0, makings = 0;
  int32_t operations = 0;
  bool ends = false;              // what waits on streams returns
  bool revoked = false, finalized = false, making = false, grow_id = false;
};

std::mutex mutex;  // guards all there is
std::condition_variable changed;
NcclFaults faults;
std::map<std::string, std::shared_ptr<World>> worlds;  // that wait for ranks, by id
std::set<Communicator*> alive;
int32_t registrations = 0, memories = 0, ids = 0;
std::string key;

thread_local int32_t depth = 0;
thread_local std::vector<Batch> grouped;
thread_local std::vector<Communicator*> aborting;
thread_local std::string last_error;

template <class FunctionType>
FunctionType OfDriver(const char* name) {
  static void* const driver = dlopen(std::getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  return driver == nullptr ? nullptr : reinterpret_cast<FunctionType>(dlsym(driver, name));
}

char* Real(const void* memory) {
  static const auto real = OfDriver<RealMemory>(kRealMemory);
  return static_cast<char*>(real(memory));
}

int32_t CurrentDevice() {
  static const auto current = OfDriver<CurrentOrdinal>(kCurrentOrdinal);
  return current == nullptr ? -1 : current();
}

Outcome Refuse(Outcome outcome, std::string why) {
  last_error = std::move(why);
  return outcome;
}

int32_t Version() { return faults.version != 0 ? faults.version : tutti_fake_nccl_version; }

Communicator* Of(Comm comm) { return reinterpret_cast<Communicator*>(comm); }
Comm HandleOf(Communicator* communicator) { return reinterpret_cast<Comm>(communicator); }

struct TypeOfNccl {
  DType dtype;
  size_t bytes;
};
bool FindType(DataType type, TypeOfNccl* out) {
  static const std::map<DataType, TypeOfNccl> types = {
      {kInt8, {DType::kInt8, 1}},       {kUint8, {DType::kUint8, 1}},
      {kInt32, {DType::kInt32, 4}},     {kUint32, {DType::kUint32, 4}},
      {kInt64, {DType::kInt64, 8}},     {kUint64, {DType::kUint64, 8}},
      {kFloat16, {DType::kFloat16, 2}}, {kFloat32, {DType::kFloat32, 4}},
      {kFloat64, {DType::kFloat64, 8}}, {kBfloat16, {DType::kBfloat16, 2}}};
  const auto found = types.find(type);
  if (found == types.end()) return false;
  *out = found->second;
  return true;
}

ReduceOp OpOf(Operation op) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin,
                               ReduceOp::kMean};
  return kOps[op];
}

// ---- On streams ----

// The work of all ranks of a round, when all have come.
void DoRound(const Operation_& of, Round* round) {
  TypeOfNccl type;
  if (!FindType(of.type, &type)) return;
  const size_t bytes = of.count * type.bytes, ranks = round->parts.size();
  if (bytes == 0) return;
  const auto write = [&](size_t rank, const std::vector<char>& from, size_t at, size_t size) {
    char* const out = Real(round->parts[rank].out);
    if (out != nullptr) std::memcpy(out, from.data() + at, size);
  };
  std::vector<char> made;
  if (of.kind == Operation_::kBroadcast) {
    const char* const in = Real(round->parts[static_cast<size_t>(of.peer)].in);
    if (in == nullptr) return;
    made.assign(in, in + bytes);
    for (size_t r = 0; r < ranks; ++r) write(r, made, 0, bytes);
    return;
  }
  const bool scatters = of.kind == Operation_::kReduceScatter;
  std::vector<std::vector<char>> inputs;
  for (const Round::Part& part : round->parts) {
    const char* const in = Real(part.in);
    if (in == nullptr) return;
    inputs.emplace_back(in, in + bytes * (scatters ? ranks : 1));
  }
  if (of.kind == Operation_::kAllGather) {
    for (const auto& input : inputs) made.insert(made.end(), input.begin(), input.end());
    for (size_t r = 0; r < ranks; ++r) write(r, made, 0, made.size());
    return;
  }
  made.resize(inputs[0].size());
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  if (!ReduceInto(OpOf(of.op), type.dtype, pointers,
                  static_cast<int64_t>(made.size() / type.bytes), made.data())
           .ok()) {
    return;
  }
  for (size_t r = 0; r < ranks; ++r) {
    if (of.kind == Operation_::kReduce && r != static_cast<size_t>(of.peer)) continue;
    write(r, made, scatters ? r * bytes : 0, bytes);
  }
}

void RunRound(std::unique_lock<std::mutex>& lock, Communicator* rank, const Operation_& of) {
  World& world = *rank->world;
  const uint64_t number = rank->rounds++;
  Round& round = world.rounds[number];
  round.parts.resize(static_cast<size_t>(world.size));
  round.parts[static_cast<size_t>(rank->rank)] = {rank, of.in, of.out};
  if (++round.come == round.parts.size()) {
    DoRound(of, &round);
    round.done = true;
    changed.notify_all();
  }
  const std::shared_ptr<World> kept = rank->world;
  changed.wait(lock, [&] { return round.done || rank->ends; });
}

void RunBatch(Batch batch) {
  std::unique_lock lock(mutex);
  Communicator* const rank = batch.rank;
  World& world = *rank->world;
  for (const Operation_& of : batch.operations) {
    TypeOfNccl type;
    if (of.kind != Operation_::kSend || !FindType(of.type, &type)) continue;
    const char* const in = Real(of.in);
    world.mail[{rank->rank, of.peer}].emplace_back(in, in + of.count * type.bytes);
    changed.notify_all();
  }
  for (const Operation_& of : batch.operations) {
    if (rank->ends) break;
    if (of.kind == Operation_::kRecv) {
      auto& box = world.mail[{of.peer, rank->rank}];
      changed.wait(lock, [&] { return !box.empty() || rank->ends; });
      if (box.empty()) break;
      char* const out = Real(of.out);
      if (out != nullptr && !box.front().empty()) {
        std::memcpy(out, box.front().data(), box.front().size());
      }
      box.pop_front();
    } else if (of.kind != Operation_::kSend) {
      RunRound(lock, rank, of);
    }
  }
  --rank->running;
  changed.notify_all();
}

// With the mutex held.
void Launch(Batch batch) {
  ++batch.rank->running;
  static const auto add = OfDriver<AddStreamWork>(kAddStreamWork);
  auto* const data = new Batch(std::move(batch));
  add(data->stream,
      [](void* given) -> int32_t {
        const std::unique_ptr<Batch> owned(static_cast<Batch*>(given));
        RunBatch(std::move(*owned));
        return 0;
      },
      data);
}

// ---- Asked and called ----

Outcome Prepare(Batch batch) {
  Communicator* const rank = batch.rank;
  rank->operations += static_cast<int32_t>(batch.operations.size());
  const bool fails = faults.error != 0 && faults.error_operation > 0 &&
                     rank->operations >= faults.error_operation &&
                     (faults.error_rank < 0 || faults.error_rank == rank->rank);
  if (fails) rank->error = faults.error;
  rank->in_progress = faults.in_progress;
  if (rank->in_progress == 0) {
    Launch(std::move(batch));
    return kSuccess;
  }
  rank->prepared.push_back(std::move(batch));
  return kInProgress;
}

Outcome Add(Comm comm, Stream stream, const Operation_& operation) {
  std::unique_lock lock(mutex);
  Communicator* const rank = Of(comm);
  if (alive.count(rank) == 0) return Refuse(kInvalidArgument, "this communicator is gone");
  if (faults.refuse != 0) return Refuse(faults.refuse, "refused by the test");
  if (rank->revoked || rank->finalized || rank->making) {
    return Refuse(kInvalidUsage, "the communicator takes no operations now");
  }
  if (rank->world->come < rank->world->size || rank->in_progress > 0) {
    return Refuse(kInvalidUsage, "the communicator is in progress still");
  }
  TypeOfNccl type;
  if (!FindType(operation.type, &type)) return Refuse(kInvalidArgument, "no such data type");
  if (depth > 0) {
    const auto same = std::find_if(grouped.begin(), grouped.end(), [&](const Batch& batch) {
      return batch.rank == rank && batch.stream == stream;
    });
    if (same != grouped.end()) {
      same->operations.push_back(operation);
    } else {
      grouped.push_back({rank, stream, {operation}});
    }
    return kSuccess;
  }
  return Prepare({rank, stream, {operation}});
}

Communicator* Make(std::shared_ptr<World> world, int32_t rank, int32_t device) {
  auto* const made = new Communicator;
  made->rank = rank;
  made->device = device;
  made->in_progress = faults.in_progress;
  if (faults.error != 0 && faults.error_operation == 0 &&
      (faults.error_rank < 0 || faults.error_rank == rank)) {
    made->error = faults.error;
  }
  if (world != nullptr) {
    world->ranks[static_cast<size_t>(rank)] = made;
    ++world->come;
    made->world = std::move(world);
  }
  alive.insert(made);
  return made;
}

std::shared_ptr<World> MakeWorld(size_t size) {
  auto world = std::make_shared<World>();
  world->size = static_cast<int32_t>(size);
  world->ranks.resize(size);
  return world;
}

// Makes what is to be made when all have come.
void FinishMaking(World* world, uint64_t number, bool shrinks) {
  Making& making = world->makings[number];
  if (making.parts.size() < making.expected) return;
  std::map<int32_t, std::vector<Making::Part>> colors;
  for (const Making::Part& part : making.parts) {
    if (part.rank != nullptr) part.rank->making = false;
    if (part.color != kNoColor) colors[part.color].push_back(part);
  }
  for (auto& [color, parts] : colors) {
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
      const auto by = [](const Making::Part& part) {
        return std::pair(part.key, part.rank != nullptr ? part.rank->rank : part.key);
      };
      return by(a) < by(b);
    });
    const auto made = MakeWorld(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].joining != nullptr) {
        parts[i].joining->world = made;
        parts[i].joining->rank = static_cast<int32_t>(i);
        made->ranks[i] = parts[i].joining;
        ++made->come;
      } else {
        *parts[i].made =
            HandleOf(Make(made, static_cast<int32_t>(i), parts[i].rank->device));
      }
    }
  }
  (void)shrinks;
  making.parts.clear();
  making.expected = SIZE_MAX;
  changed.notify_all();
}

Outcome BeginMaking(Comm comm, size_t expected, int32_t color, int32_t order, Comm* made) {
  Communicator* const rank = Of(comm);
  if (alive.count(rank) == 0) return Refuse(kInvalidArgument, "this communicator is gone");
  if (rank->finalized) return Refuse(kInvalidUsage, "the communicator was finalized");
  *made = nullptr;
  rank->making = true;
  rank->in_progress = faults.in_progress;
  const uint64_t number = rank->makings++;
  Making& making = rank->world->makings[number];
  making.expected = expected;
  making.parts.push_back({rank, color, order, made, nullptr});
  FinishMaking(rank->world.get(), number, false);
  return kInProgress;
}

bool SharesDevice(const World& world) {
  const char* const enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (Version() >= kSharesDevices && enabled != nullptr && *enabled == '1') return false;
  std::set<int32_t> devices;
  for (const Communicator* rank : world.ranks) {
    if (rank != nullptr && !devices.insert(rank->device).second) return true;
  }
  return false;
}

void WaitForEnd(std::unique_lock<std::mutex>& lock, Communicator* rank) {
  changed.wait(lock, [&] { return rank->running == 0 && faults.abort_hangs == 0; });
  for (Communicator*& one : rank->world ? rank->world->ranks : std::vector<Communicator*>()) {
    if (one == rank) one = nullptr;
  }
  alive.erase(rank);
  delete rank;
}

}  // namespace
}  // namespace tutti::fake

using namespace tutti::fake;        // NOLINT
using namespace tutti::cuda::nccl;  // NOLINT
using Stream = tutti::cuda::Stream;
using Op = Operation_;

#define TUTTI_FAKE extern "C" __attribute__((visibility("default")))

TUTTI_FAKE void tutti_fake_nccl_set_faults(const NcclFaults* given) {
  const std::lock_guard lock(mutex);
  faults = *given;
  changed.notify_all();
}
TUTTI_FAKE int32_t tutti_fake_nccl_count_things() {
  const std::lock_guard lock(mutex);
  return static_cast<int32_t>(alive.size()) + registrations + memories;
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
  std::snprintf(id->bytes, sizeof(id->bytes), "fake id %d", ++ids);
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
  auto& world = worlds[std::string(id.bytes)];
  if (world == nullptr) world = MakeWorld(static_cast<size_t>(ranks));
  if (world->size != ranks || rank >= ranks || world->ranks[static_cast<size_t>(rank)]) {
    return Refuse(kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                        std::to_string(ranks) + " does not fit the others");
  }
  *comm = HandleOf(Make(world, rank, device));
  if (world->come == world->size) {
    if (SharesDevice(*world)) {
      for (Communicator* one : world->ranks) one->error = kInvalidUsage;
    }
    worlds.erase(std::string(id.bytes));
  }
  changed.notify_all();
  return kInProgress;
}

TUTTI_FAKE Outcome ncclCommGetAsyncError(Comm comm, Outcome* error) {
  const std::lock_guard lock(mutex);
  Communicator* const rank = Of(comm);
  if (alive.count(rank) == 0) return Refuse(kInvalidArgument, "this communicator is gone");
  *error = rank->error;
  if (*error != kSuccess) {
    last_error = *error == kInvalidUsage ? "Duplicate GPU detected" : "set by the test";
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
    WaitForEnd(lock, rank);
  }
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommRevoke(Comm comm, int32_t flags) {
  const std::lock_guard lock(mutex);
  if (flags != 0) return Refuse(kInvalidArgument, "flags are reserved");
  Communicator* const rank = Of(comm);
  rank->revoked = rank->ends = true;
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
    changed.notify_all();
  }
  return BeginMaking(comm, static_cast<size_t>(Of(comm)->world->size - count), 0, 0, made);
}

TUTTI_FAKE Outcome ncclCommGetUniqueId(Comm comm, UniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->bytes, sizeof(id->bytes), "grow id %d", ++ids);
  worlds[std::string(id->bytes)] = Of(comm)->world;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommGrow(Comm comm, int32_t ranks, const UniqueId* id, int32_t rank,
                                Comm* made, Config*) {
  const std::lock_guard lock(mutex);
  if (comm != nullptr) {
    return BeginMaking(comm, static_cast<size_t>(ranks), 0, Of(comm)->rank, made);
  }
  const auto found = worlds.find(std::string(id->bytes));
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
  FinishMaking(&world, number, false);
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
  if (OfDriver<int32_t (*)(uint64_t)>("cuMemFree_v2")(reinterpret_cast<uint64_t>(memory)) != 0) {
    return Refuse(kInvalidArgument, "no such memory");
  }
  const std::lock_guard lock(mutex);
  --memories;
  return kSuccess;
}

TUTTI_FAKE Outcome ncclCommRegister(Comm, void* memory, size_t, void** handle) {
  const std::lock_guard lock(mutex);
  ++registrations;
  *handle = memory;
  return kSuccess;
}
TUTTI_FAKE Outcome ncclCommDeregister(Comm, void*) {
  const std::lock_guard lock(mutex);
  --registrations;
  return kSuccess;
}
TUTTI_FAKE Outcome ncclCommWindowRegister(Comm, void* memory, size_t, Window* window, int32_t) {
  const std::lock_guard lock(mutex);
  ++registrations;
  *window = static_cast<Window>(memory);
  return kSuccess;
}
TUTTI_FAKE Outcome ncclCommWindowDeregister(Comm, Window) {
  const std::lock_guard lock(mutex);
  --registrations;
  return kSuccess;
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
  return Add(comm, stream, {Op::kAllReduce, in, out, count, type, op, 0});
}
TUTTI_FAKE Outcome ncclReduce(const void* in, void* out, size_t count, DataType type, Operation op,
                              int32_t root, Comm comm, Stream stream) {
  return Add(comm, stream, {Op::kReduce, in, out, count, type, op, root});
}
TUTTI_FAKE Outcome ncclBroadcast(const void* in, void* out, size_t count, DataType type,
                                 int32_t root, Comm comm, Stream stream) {
  return Add(comm, stream, {Op::kBroadcast, in, out, count, type, kSum, root});
}
TUTTI_FAKE Outcome ncclAllGather(const void* in, void* out, size_t count, DataType type, Comm comm,
                                 Stream stream) {
  return Add(comm, stream, {Op::kAllGather, in, out, count, type, kSum, 0});
}
TUTTI_FAKE Outcome ncclReduceScatter(const void* in, void* out, size_t count, DataType type,
                                     Operation op, Comm comm, Stream stream) {
  return Add(comm, stream, {Op::kReduceScatter, in, out, count, type, op, 0});
}
TUTTI_FAKE Outcome ncclSend(const void* in, size_t count, DataType type, int32_t peer, Comm comm,
                            Stream stream) {
  return Add(comm, stream, {Op::kSend, in, nullptr, count, type, kSum, peer});
}
TUTTI_FAKE Outcome ncclRecv(void* out, size_t count, DataType type, int32_t peer, Comm comm,
                            Stream stream) {
  return Add(comm, stream, {Op::kRecv, nullptr, out, count, type, kSum, peer});
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
  for (Communicator* rank : std::exchange(aborting, {})) WaitForEnd(lock, rank);
  return outcome;
}

// What ranks of the fake NCCL do together.
#include "tests/gpu/fakes/fake_nccl_world.h"

#include <algorithm>
#include <cstring>

#include "core/tensor/reduce.h"

extern "C" const int32_t tutti_fake_nccl_version;  // of this library

namespace tutti::fake {

std::mutex mutex;
std::condition_variable changed;
NcclFaults faults;
std::map<std::string, std::shared_ptr<World>> worlds;
std::set<Communicator*> alive;
thread_local int32_t depth = 0;
thread_local std::vector<Batch> grouped;
thread_local std::string last_error;

char* Real(const void* memory) {
  static const auto real = OfDriver<RealMemory>(kRealMemory);
  return static_cast<char*>(real(memory));
}

namespace {

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

}  // namespace

size_t BytesOf(const Call& of) {
  TypeOfNccl type;
  return FindType(of.type, &type) ? of.count * type.bytes : 0;
}

void DoRound(const Call& of, Round* round) {
  TypeOfNccl type;
  if (!FindType(of.type, &type)) return;
  const size_t bytes = of.count * type.bytes, ranks = round->parts.size();
  if (bytes == 0) return;
  const auto write = [&](size_t rank, const std::vector<char>& from, size_t at, size_t size) {
    char* const out = Real(round->parts[rank].out);
    if (out != nullptr) std::memcpy(out, from.data() + at, size);
  };
  std::vector<char> made;
  if (of.kind == Call::kBroadcast) {
    const char* const in = Real(round->parts[static_cast<size_t>(of.peer)].in);
    if (in == nullptr) return;
    made.assign(in, in + bytes);
    for (size_t r = 0; r < ranks; ++r) write(r, made, 0, bytes);
    return;
  }
  const bool scatters = of.kind == Call::kReduceScatter;
  std::vector<std::vector<char>> inputs;
  for (const Round::Part& part : round->parts) {
    const char* const in = Real(part.in);
    if (in == nullptr) return;
    inputs.emplace_back(in, in + bytes * (scatters ? ranks : 1));
  }
  if (of.kind == Call::kAllGather) {
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
    if (of.kind == Call::kReduce && r != static_cast<size_t>(of.peer)) continue;
    write(r, made, scatters ? r * bytes : 0, bytes);
  }
}

namespace {

void RunRound(std::unique_lock<std::mutex>& lock, Communicator* rank, const Call& of) {
  World& world = *rank->world;
  const uint64_t number = rank->rounds++;
  if (!world.folder.empty()) return RunRoundOfProcesses(lock, rank, of, number);
  Round& round = world.rounds[number];
  round.parts.resize(static_cast<size_t>(world.size));
  round.parts[static_cast<size_t>(rank->rank)] = {of.in, of.out};
  if (round.come == 0) round.call = of;
  ++round.come;
  if (!of.Fits(round.call)) {
    // The real one hangs, or gives what nobody wanted.
    for (Communicator* one : world.ranks) {
      if (one == nullptr) continue;
      one->error = kInternalError;
      one->why = "ranks call different operations";
    }
    round.done = true;
    changed.notify_all();
  } else if (round.come == round.parts.size() && !round.done) {
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
  for (const Call& of : batch.operations) {
    TypeOfNccl type;
    if (of.kind != Call::kSend || !FindType(of.type, &type)) continue;
    const char* const in = Real(of.in);
    world.mail[{rank->rank, of.peer}].emplace_back(in, in + of.count * type.bytes);
    changed.notify_all();
  }
  for (const Call& of : batch.operations) {
    if (rank->ends) break;
    if (of.kind == Call::kRecv) {
      auto& box = world.mail[{of.peer, rank->rank}];
      changed.wait(lock, [&] { return !box.empty() || rank->ends; });
      if (box.empty()) break;
      char* const out = Real(of.out);
      if (out != nullptr && !box.front().empty()) {
        std::memcpy(out, box.front().data(), box.front().size());
      }
      box.pop_front();
    } else if (of.kind != Call::kSend) {
      RunRound(lock, rank, of);
    }
  }
  --rank->running;
  changed.notify_all();
}

}  // namespace

int32_t CurrentDevice() {
  static const auto current = OfDriver<CurrentOrdinal>(kCurrentOrdinal);
  return current == nullptr ? -1 : current();
}

Outcome Refuse(Outcome outcome, std::string why) {
  last_error = std::move(why);
  return outcome;
}

int32_t Version() { return faults.version != 0 ? faults.version : tutti_fake_nccl_version; }

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

Outcome Add(Comm comm, Stream stream, const Call& operation) {
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
void FinishMaking(World* world, uint64_t number) {
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
  FinishMaking(rank->world.get(), number);
  return kInProgress;
}

bool SharesDevice(const World& world) {
  const char* const enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (Version() >= kSharesDevices && enabled != nullptr && *enabled == '1') return false;
  std::vector<int32_t> all;
  if (!world.folder.empty()) CountCome(world, &all);
  for (const Communicator* rank : world.ranks) {
    if (rank != nullptr && world.folder.empty()) all.push_back(rank->device);
  }
  return std::set<int32_t>(all.begin(), all.end()).size() < all.size();
}

void WaitForEnd(std::unique_lock<std::mutex>& lock, Communicator* rank) {
  changed.wait(lock, [&] { return rank->running == 0 && faults.abort_hangs == 0; });
  for (Communicator*& one : rank->world ? rank->world->ranks : std::vector<Communicator*>()) {
    if (one == rank) one = nullptr;
  }
  alive.erase(rank);
  delete rank;
}

}  // namespace tutti::fake

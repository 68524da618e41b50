#include "capi/tool/bench_collectives.h"

namespace tutti::tool {
namespace {

// ---- Bus bandwidth over algorithm bandwidth, for n ranks ----

double Once(double) { return 1; }
double OthersShare(double n) { return (n - 1) / n; }
double TwiceOthersShare(double n) { return 2 * (n - 1) / n; }

// ---- Where elements come from ----

using Runs = std::vector<BenchRun>;

Runs Folded(const BenchPlace&, int64_t elements) { return {{elements, -1, 0}}; }
Runs OfRoot(const BenchPlace& place, int64_t elements) { return {{elements, place.root, 0}}; }
Runs FoldedShare(const BenchPlace& place, int64_t elements) {
  return {{elements, -1, place.rank * place.share}};
}
Runs ShareOfRoot(const BenchPlace& place, int64_t elements) {
  return {{elements, place.root, place.rank * place.share}};
}
Runs OfNeighbour(const BenchPlace& place, int64_t elements) {
  return {{elements, (place.rank + place.size - 1) % place.size, 0}};
}
Runs Nothing(const BenchPlace&, int64_t) { return {}; }

Runs Joined(const BenchPlace& place, int64_t) {
  Runs runs;
  for (int64_t from = 0; from < place.size; ++from) runs.push_back({place.share, from, 0});
  return runs;
}

Runs Exchanged(const BenchPlace& place, int64_t) {
  Runs runs;
  for (int64_t from = 0; from < place.size; ++from) {
    runs.push_back({place.share, from, place.rank * place.share});
  }
  return runs;
}

Runs JoinedUneven(const BenchPlace& place, int64_t) {
  Runs runs;
  for (int64_t from = 0; from < place.size; ++from) {
    runs.push_back({UnitsOfRank(from) * place.share, from, 0});
  }
  return runs;
}

Runs ExchangedUneven(const BenchPlace& place, int64_t) {
  Runs runs;
  for (int64_t from = 0; from < place.size; ++from) {
    int64_t first = 0;
    for (int64_t to = 0; to < place.rank; ++to) first += UnitsBetween(place, from, to);
    runs.push_back({UnitsBetween(place, from, place.rank) * place.share, from,
                    first * place.share});
  }
  return runs;
}

// ---- Calls ----

tutti_status* AllReduce(const BenchCall& call) {
  return tutti_communicator_all_reduce(call.communicator, call.input(), call.op, nullptr,
                                       call.output());
}

tutti_status* AllReduceMany(const BenchCall& call) {
  return tutti_communicator_all_reduce_many(call.communicator, call.inputs.size(),
                                            call.inputs.data(), call.op, nullptr,
                                            call.outputs.data());
}

tutti_status* Broadcast(const BenchCall& call) {
  return tutti_communicator_broadcast(call.communicator, call.root, nullptr, call.output());
}

tutti_status* AllGather(const BenchCall& call) {
  return tutti_communicator_all_gather(call.communicator, call.input(), nullptr, Out(call.made));
}

tutti_status* Reduce(const BenchCall& call) {
  return tutti_communicator_reduce(call.communicator, call.input(), call.op, call.root, nullptr,
                                   call.output());
}

tutti_status* ReduceScatter(const BenchCall& call) {
  return tutti_communicator_reduce_scatter(call.communicator, call.input(), call.op, nullptr,
                                           call.output());
}

tutti_status* AllGatherInto(const BenchCall& call) {
  return tutti_communicator_all_gather_into(call.communicator, call.input(), nullptr,
                                            call.output());
}

tutti_status* Gather(const BenchCall& call) {
  return tutti_communicator_gather(call.communicator, call.input(), call.root, nullptr,
                                   Out(call.made));
}

tutti_status* Scatter(const BenchCall& call) {
  return tutti_communicator_scatter(call.communicator, call.input(), call.root, nullptr,
                                    call.output());
}

tutti_status* AllToAll(const BenchCall& call) {
  return tutti_communicator_all_to_all(call.communicator, call.input(), nullptr, call.output());
}

tutti_status* AllToAllUneven(const BenchCall& call) {
  return tutti_communicator_all_to_all_uneven(call.communicator, call.input(), call.rows.size(),
                                              call.rows.data(), nullptr, nullptr, Out(call.made));
}

// Round in a ring: every second rank receives first, so that somebody is there for each sender.
template <typename Send, typename Receive>
tutti_status* RoundTheRing(const BenchCall& call, Send send, Receive receive) {
  const int64_t size = tutti_communicator_get_size(call.communicator);
  const int64_t rank = tutti_communicator_get_rank(call.communicator);
  const int64_t next = (rank + 1) % size;
  const int64_t previous = (rank + size - 1) % size;
  if (rank % 2 == 1) {
    if (tutti_status* const failed = receive(previous)) return failed;
    return send(next);
  }
  if (tutti_status* const failed = send(next)) return failed;
  return receive(previous);
}

tutti_status* SendReceive(const BenchCall& call) {
  if (tutti_communicator_get_size(call.communicator) == 1) {
    return tutti_tensor_copy_into(call.input(), call.output());
  }
  return RoundTheRing(
      call,
      [&](int64_t to) {
        return tutti_communicator_send(call.communicator, call.input(), to, nullptr);
      },
      [&](int64_t from) {
        return tutti_communicator_receive(call.communicator, from, nullptr, call.output());
      });
}

tutti_status* Barrier(const BenchCall& call) {
  return tutti_communicator_barrier(call.communicator, nullptr);
}

// ---- The same at once ----

tutti_status* StartAllReduce(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_all_reduce_async(call.communicator, call.input(), call.op, nullptr,
                                             call.output(), future);
}

tutti_status* StartAllReduceMany(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_all_reduce_many_async(call.communicator, call.inputs.size(),
                                                  call.inputs.data(), call.op, nullptr,
                                                  call.outputs.data(), future);
}

tutti_status* StartBroadcast(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_broadcast_async(call.communicator, call.root, nullptr, call.output(),
                                            future);
}

tutti_status* StartAllGather(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_all_gather_async(call.communicator, call.input(), nullptr, future);
}

tutti_status* StartReduce(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_reduce_async(call.communicator, call.input(), call.op, call.root,
                                         nullptr, call.output(), future);
}

tutti_status* StartReduceScatter(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_reduce_scatter_async(call.communicator, call.input(), call.op, nullptr,
                                                 call.output(), future);
}

tutti_status* StartAllGatherInto(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_all_gather_into_async(call.communicator, call.input(), nullptr,
                                                  call.output(), future);
}

tutti_status* StartGather(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_gather_async(call.communicator, call.input(), call.root, nullptr,
                                         future);
}

tutti_status* StartScatter(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_scatter_async(call.communicator, call.input(), call.root, nullptr,
                                          call.output(), future);
}

tutti_status* StartAllToAll(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_all_to_all_async(call.communicator, call.input(), nullptr,
                                             call.output(), future);
}

// The later one of both: calls run in the order of issue, and a failed one fails those behind it.
tutti_status* StartSendReceive(const BenchCall& call, tutti_future** future) {
  CFuture later;
  tutti_status* const failed = RoundTheRing(
      call,
      [&](int64_t to) {
        return tutti_communicator_send_async(call.communicator, call.input(), to, nullptr,
                                             Out(&later));
      },
      [&](int64_t from) {
        return tutti_communicator_receive_async(call.communicator, from, nullptr, call.output(),
                                                Out(&later));
      });
  *future = later.release();
  return failed;
}

tutti_status* StartBarrier(const BenchCall& call, tutti_future** future) {
  return tutti_communicator_barrier_async(call.communicator, nullptr, future);
}

constexpr auto kNone = BenchPart::kNone;
constexpr auto kWhole = BenchPart::kWhole;
constexpr auto kShare = BenchPart::kShare;
constexpr auto kOwnUnits = BenchPart::kOwnUnits;
constexpr auto kNoShares = BenchShares::kNone;
constexpr auto kEqual = BenchShares::kEqual;
constexpr auto kUneven = BenchShares::kUneven;

constexpr BenchCollective kCollectives[] = {
    {.name = "all_reduce", .input = kWhole, .output = kWhole, .shares = kNoShares,
     .reduces = true, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = TwiceOthersShare,
     .runs = Folded, .call = AllReduce, .start = StartAllReduce,
     .call_many = AllReduceMany, .start_many = StartAllReduceMany},
    {.name = "broadcast", .input = kNone, .output = kWhole, .shares = kNoShares,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = true, .bus_factor = Once,
     .runs = OfRoot, .call = Broadcast, .start = StartBroadcast,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "all_gather", .input = kShare, .output = kWhole, .shares = kEqual,
     .reduces = false, .only_at_root = false, .makes_output = true,
     .works_in_place = false, .always_in_place = false, .bus_factor = OthersShare,
     .runs = Joined, .call = AllGather, .start = StartAllGather,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "all_gather_uneven", .input = kOwnUnits, .output = kWhole, .shares = kUneven,
     .reduces = false, .only_at_root = false, .makes_output = true,
     .works_in_place = false, .always_in_place = false, .bus_factor = OthersShare,
     .runs = JoinedUneven, .call = AllGather, .start = StartAllGather,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "reduce", .input = kWhole, .output = kWhole, .shares = kNoShares,
     .reduces = true, .only_at_root = true, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = Once,
     .runs = Folded, .call = Reduce, .start = StartReduce,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "reduce_scatter", .input = kWhole, .output = kShare, .shares = kEqual,
     .reduces = true, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = OthersShare,
     .runs = FoldedShare, .call = ReduceScatter, .start = StartReduceScatter,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "all_gather_into", .input = kShare, .output = kWhole, .shares = kEqual,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = OthersShare,
     .runs = Joined, .call = AllGatherInto, .start = StartAllGatherInto,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "gather", .input = kShare, .output = kWhole, .shares = kEqual,
     .reduces = false, .only_at_root = true, .makes_output = true,
     .works_in_place = false, .always_in_place = false, .bus_factor = OthersShare,
     .runs = Joined, .call = Gather, .start = StartGather,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "scatter", .input = kWhole, .output = kShare, .shares = kEqual,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = OthersShare,
     .runs = ShareOfRoot, .call = Scatter, .start = StartScatter,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "all_to_all", .input = kWhole, .output = kWhole, .shares = kEqual,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = false, .always_in_place = false, .bus_factor = OthersShare,
     .runs = Exchanged, .call = AllToAll, .start = StartAllToAll,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "all_to_all_uneven", .input = kWhole, .output = kWhole, .shares = kUneven,
     .reduces = false, .only_at_root = false, .makes_output = true,
     .works_in_place = false, .always_in_place = false, .bus_factor = OthersShare,
     .runs = ExchangedUneven, .call = AllToAllUneven, .start = nullptr,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "send_receive", .input = kWhole, .output = kWhole, .shares = kNoShares,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = false, .always_in_place = false, .bus_factor = Once,
     .runs = OfNeighbour, .call = SendReceive, .start = StartSendReceive,
     .call_many = nullptr, .start_many = nullptr},
    {.name = "barrier", .input = kNone, .output = kNone, .shares = kNoShares,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = false, .always_in_place = false, .bus_factor = Once,
     .runs = Nothing, .call = Barrier, .start = StartBarrier,
     .call_many = nullptr, .start_many = nullptr},
};

}  // namespace

int64_t UnitsOfRank(int64_t rank) { return rank + 1; }

int64_t UnitsBetween(const BenchPlace& place, int64_t from, int64_t to) {
  return 1 + (from + to) % place.size;
}

int64_t UnitsOfAll(int64_t size) { return size * (size + 1) / 2; }

std::span<const BenchCollective> BenchCollectives() { return kCollectives; }

const BenchCollective* FindBenchCollective(const std::string& name) {
  for (const BenchCollective& collective : kCollectives) {
    if (name == collective.name) return &collective;
  }
  return nullptr;
}

std::string BenchCollectiveNames() {
  std::string names;
  for (const BenchCollective& collective : kCollectives) {
    names += (names.empty() ? "" : ", ") + std::string(collective.name);
  }
  return names;
}

}  // namespace tutti::tool

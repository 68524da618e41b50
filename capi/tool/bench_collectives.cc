#include "capi/tool/bench_collectives.h"

namespace tutti::tool {
namespace {

// ---- Bus bandwidth over algorithm bandwidth, for n ranks ----

double Once(double) { return 1; }
double OthersShare(double n) { return (n - 1) / n; }
double TwiceOthersShare(double n) { return 2 * (n - 1) / n; }

// ---- Where elements come from ----

BenchOrigin Folded(const BenchPlace&, int64_t index) { return {-1, index}; }
BenchOrigin OfRoot(const BenchPlace& place, int64_t index) { return {place.root, index}; }
BenchOrigin Joined(const BenchPlace& place, int64_t index) {
  return {index / place.share, index % place.share};
}
BenchOrigin FoldedShare(const BenchPlace& place, int64_t index) {
  return {-1, place.rank * place.share + index};
}
BenchOrigin ShareOfRoot(const BenchPlace& place, int64_t index) {
  return {place.root, place.rank * place.share + index};
}
BenchOrigin Exchanged(const BenchPlace& place, int64_t index) {
  return {index / place.share, place.rank * place.share + index % place.share};
}
BenchOrigin OfNeighbour(const BenchPlace& place, int64_t index) {
  return {(place.rank + place.size - 1) % place.size, index};
}
BenchOrigin Nothing(const BenchPlace&, int64_t) { return {}; }

// ---- Calls ----

tutti_status* AllReduce(const BenchCall& call) {
  return tutti_communicator_all_reduce(call.communicator, call.input, call.op, nullptr,
                                       call.output);
}

tutti_status* Broadcast(const BenchCall& call) {
  return tutti_communicator_broadcast(call.communicator, call.root, nullptr, call.output);
}

tutti_status* AllGather(const BenchCall& call) {
  return tutti_communicator_all_gather(call.communicator, call.input, nullptr, Out(call.made));
}

tutti_status* Reduce(const BenchCall& call) {
  return tutti_communicator_reduce(call.communicator, call.input, call.op, call.root, nullptr,
                                   call.output);
}

tutti_status* ReduceScatter(const BenchCall& call) {
  return tutti_communicator_reduce_scatter(call.communicator, call.input, call.op, nullptr,
                                           call.output);
}

tutti_status* AllGatherInto(const BenchCall& call) {
  return tutti_communicator_all_gather_into(call.communicator, call.input, nullptr, call.output);
}

tutti_status* Gather(const BenchCall& call) {
  return tutti_communicator_gather(call.communicator, call.input, call.root, nullptr,
                                   Out(call.made));
}

tutti_status* Scatter(const BenchCall& call) {
  return tutti_communicator_scatter(call.communicator, call.input, call.root, nullptr, call.output);
}

tutti_status* AllToAll(const BenchCall& call) {
  return tutti_communicator_all_to_all(call.communicator, call.input, nullptr, call.output);
}

// Round in a ring: every second rank receives first, so that somebody is there for each sender.
tutti_status* SendReceive(const BenchCall& call) {
  const int64_t size = tutti_communicator_get_size(call.communicator);
  const int64_t rank = tutti_communicator_get_rank(call.communicator);
  if (size == 1) return tutti_tensor_copy_into(call.input, call.output);
  const auto send = [&] {
    return tutti_communicator_send(call.communicator, call.input, (rank + 1) % size, nullptr);
  };
  const auto receive = [&] {
    return tutti_communicator_receive(call.communicator, (rank + size - 1) % size, nullptr,
                                      call.output);
  };
  if (rank % 2 == 1) {
    if (tutti_status* const failed = receive()) return failed;
    return send();
  }
  if (tutti_status* const failed = send()) return failed;
  return receive();
}

tutti_status* Barrier(const BenchCall& call) {
  return tutti_communicator_barrier(call.communicator, nullptr);
}

constexpr auto kNone = BenchPart::kNone;
constexpr auto kWhole = BenchPart::kWhole;
constexpr auto kShare = BenchPart::kShare;

constexpr BenchCollective kCollectives[] = {
    {.name = "all_reduce", .input = kWhole, .output = kWhole, .has_shares = false, .reduces = true,
     .only_at_root = false, .makes_output = false, .works_in_place = true,
     .always_in_place = false, .bus_factor = TwiceOthersShare, .origin = Folded,
     .call = AllReduce},
    {.name = "broadcast", .input = kNone, .output = kWhole, .has_shares = false, .reduces = false,
     .only_at_root = false, .makes_output = false, .works_in_place = true,
     .always_in_place = true, .bus_factor = Once, .origin = OfRoot, .call = Broadcast},
    {.name = "all_gather", .input = kShare, .output = kWhole, .has_shares = true, .reduces = false,
     .only_at_root = false, .makes_output = true, .works_in_place = false,
     .always_in_place = false, .bus_factor = OthersShare, .origin = Joined, .call = AllGather},
    {.name = "reduce", .input = kWhole, .output = kWhole, .has_shares = false,
     .reduces = true, .only_at_root = true, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = Once,
     .origin = Folded, .call = Reduce},
    {.name = "reduce_scatter", .input = kWhole, .output = kShare, .has_shares = true,
     .reduces = true, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = OthersShare,
     .origin = FoldedShare, .call = ReduceScatter},
    {.name = "all_gather_into", .input = kShare, .output = kWhole, .has_shares = true,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = OthersShare,
     .origin = Joined, .call = AllGatherInto},
    {.name = "gather", .input = kShare, .output = kWhole, .has_shares = true,
     .reduces = false, .only_at_root = true, .makes_output = true,
     .works_in_place = false, .always_in_place = false, .bus_factor = OthersShare,
     .origin = Joined, .call = Gather},
    {.name = "scatter", .input = kWhole, .output = kShare, .has_shares = true,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = true, .always_in_place = false, .bus_factor = OthersShare,
     .origin = ShareOfRoot, .call = Scatter},
    {.name = "all_to_all", .input = kWhole, .output = kWhole, .has_shares = true,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = false, .always_in_place = false, .bus_factor = OthersShare,
     .origin = Exchanged, .call = AllToAll},
    {.name = "send_receive", .input = kWhole, .output = kWhole, .has_shares = false,
     .reduces = false, .only_at_root = false, .makes_output = false,
     .works_in_place = false, .always_in_place = false, .bus_factor = Once,
     .origin = OfNeighbour, .call = SendReceive},
    {.name = "barrier", .input = kNone, .output = kNone, .has_shares = false, .reduces = false,
     .only_at_root = false, .makes_output = false, .works_in_place = false,
     .always_in_place = false, .bus_factor = Once, .origin = Nothing, .call = Barrier},
};

}  // namespace

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

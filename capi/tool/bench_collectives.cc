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

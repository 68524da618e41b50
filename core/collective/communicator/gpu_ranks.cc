#include "core/collective/communicator/gpu_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/wire_bytes.h"
#include "core/collective/communicator/nccl_call.h"

namespace tutti {
namespace {

// How long a rank waits for the others to make their communicators; those that cannot say so.
constexpr int64_t kMostFormingNs = 60 * kSecondNs;
constexpr int64_t kMostAbortNs = 10 * kSecondNs;
// What ranks tell each other of an error: a pair exchanges no more than fits in a block.
constexpr size_t kMostToldBytes = 1024;

std::string_view Told(const Status& status) { return status.message().substr(0, kMostToldBytes); }

// The same for processes of one machine, and of no two: names of hosts may be equal.
std::string ThisMachine() {
  char name[256] = {};
  (void)gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, boot);
  return Format("{} ({})", name, boot);
}

// What a rank has; or why it has none.
std::string WriteFacts(const Result<GpuRankFacts>& facts, bool has_kernels) {
  std::string text;
  WireWriter writer(&text);
  writer.Put(static_cast<uint8_t>(facts.ok()));
  if (!facts.ok()) {
    writer.PutText(Told(facts.status()));
    return text;
  }
  writer.PutText(facts->host);
  writer.PutText(facts->device);
  writer.Put(static_cast<int32_t>(facts->nccl_version));
  writer.Put(facts->capabilities);
  writer.Put(static_cast<uint8_t>(has_kernels));
  return text;
}

// Nothing where there are facts, else why not.
std::string ReadFacts(std::string_view text, GpuRankFacts* facts, bool* has_kernels) {
  WireReader reader(text);
  if (reader.Take<uint8_t>() == 0) return std::string(reader.TakeText());
  facts->host = reader.TakeText();
  facts->device = reader.TakeText();
  facts->nccl_version = reader.Take<int32_t>();
  facts->capabilities = reader.Take<uint32_t>();
  *has_kernels = reader.Take<uint8_t>() != 0;
  return "";
}

}  // namespace

bool NcclReduces(ReduceOp op, DType dtype) {
  if (dtype == DType::kInt16 || dtype == DType::kUint16 || dtype == DType::kBytes) return false;
  const bool extreme = op == ReduceOp::kMin || op == ReduceOp::kMax;
  if (op >= ReduceOp::kBitAnd) return false;
  if (dtype == DType::kBool) return extreme;
  if (IsComplex(dtype)) return op == ReduceOp::kSum || op == ReduceOp::kMean;
  return op != ReduceOp::kMean || !IsInteger(dtype);
}

Status GpuRanks::Decide(const GpuPlace& place, const GpuCollectivesSettings& settings,
                        const Exchange& exchange, const GpuWait& wait) {
  Status chosen = Choose(place, settings, exchange, wait);
  if (!chosen.ok()) {
    Abort();
    return chosen;
  }
  decided_ = true;
  if (!why_not_.empty()) Abort();
  return OkStatus();
}

Status GpuRanks::Choose(const GpuPlace& place, const GpuCollectivesSettings& settings,
                        const Exchange& exchange, const GpuWait& wait) {
  const auto first_of = [](const std::vector<std::string>& all) {
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].empty()) return Format("rank {}: {}", rank, all[rank]);
    }
    return std::string();
  };
  const auto properties = place.plugin->Properties(place.ordinal);
  const bool has_kernels = properties.ok() && properties->has_kernels != 0;
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::string> told,
                         exchange(WriteFacts(FactsOfGpuRank(place, ThisMachine()), has_kernels)));
  std::vector<GpuRankFacts> facts(told.size());
  folds_in_rank_order_ = size_ <= TUTTI_PLUGIN_MAX_INPUTS;
  for (size_t rank = 0; rank < told.size(); ++rank) {
    bool theirs = false;
    told[rank] = ReadFacts(told[rank], &facts[rank], &theirs);
    folds_in_rank_order_ = folds_in_rank_order_ && theirs;
  }
  why_not_ = first_of(told);
  if (!why_not_.empty()) return OkStatus();
  const Status fit = CheckGpuRanks(facts);
  why_not_ = fit.message();
  if (!fit.ok()) return OkStatus();

  const auto all_can = [&facts](uint32_t capability) {
    return std::all_of(facts.begin(), facts.end(), [capability](const GpuRankFacts& each) {
      return (each.capabilities & capability) != 0;
    });
  };
  GpuCollectivesSettings used = settings;
  used.share_devices = all_can(TUTTI_PLUGIN_CAN_SHARE_DEVICES);
  if (!all_can(TUTTI_PLUGIN_CAN_ENCRYPT)) used.encryption_key.clear();
  const Status configured = ConfigureGpuCollectives(*place.plugin, used);
  // Rank 0's id, behind why there is none.
  GpuCommunicatorId id = {};
  std::string mine;
  WireWriter writer(&mine);
  Result<GpuCommunicatorId> made = configured;
  if (configured.ok() && rank_ == 0) made = NewGpuCommunicatorId(*place.plugin);
  const bool failed = !configured.ok() || (rank_ == 0 && !made.ok());
  writer.PutText(failed ? Told(made.status()) : std::string_view());
  if (rank_ == 0 && !failed) mine.append(reinterpret_cast<const char*>(made->data()), made->size());
  TUTTI_ASSIGN_OR_RETURN(told, exchange(std::move(mine)));
  for (size_t rank = 0; rank < told.size(); ++rank) {
    WireReader reader(told[rank]);
    const std::string why(reader.TakeText());
    const std::string_view bytes = rank == 0 && why.empty() ? reader.TakeBytes(id.size()) : "";
    std::memcpy(id.data(), bytes.data(), bytes.size());
    told[rank] = why;
  }
  why_not_ = first_of(told);
  if (!why_not_.empty()) return OkStatus();

  Result<Ref<GpuCommunicator>> begun = GpuCommunicator::Begin(
      place, {.id = id, .rank = static_cast<int>(rank_), .num_ranks = static_cast<int>(size_)});
  Status ready = begun.status();
  if (begun.ok()) {
    communicator_ = std::move(begun).value();
    const std::function<Status()>* const lost = wait.failure;
    membership_ = place.plugin->aborts().Join(
        communicator_, lost == nullptr ? [] { return false; }
                                       : std::function<bool()>([ask = *lost] {
                                           return !ask().ok();
                                         }));
    CallOptions forming = *wait.options;
    forming.deadline =
        Deadline::Earlier(forming.deadline, Deadline::After(*wait.clock, kMostFormingNs));
    ready = communicator_->AwaitReady({&forming, wait.clock, wait.failure});
    if (ready.ok()) {
      Result<Ref<GpuStream>> stream = GpuStream::Create(place);
      ready = stream.status();
      if (stream.ok()) stream_ = std::move(stream).value();
    }
    if (!ready.ok()) Abort();
  }
  TUTTI_ASSIGN_OR_RETURN(told, exchange(std::string(Told(ready))));
  why_not_ = first_of(told);
  if (!why_not_.empty() && communicator_) Abort();
  return OkStatus();
}

Status GpuRanks::CheckPlace(const GpuPlace& place) const {
  if (place.ordinal == communicator_->place().ordinal) return OkStatus();
  return InvalidArgument(
      "the tensors lie on {}, and those of this rank's first call lay on {}, to which its NCCL "
      "belongs; let a rank of a communicator stay on one GPU (copy_to), or make another "
      "communicator",
      place.id.ToString(), communicator_->place().id.ToString());
}

Result<GpuRanks::Agreement> GpuRanks::Agree(const CollectiveCall& call, const CallLabel& label,
                                            const Compare& compare,
                                            const Exchange& exchange) const {
  Agreement agreed;
  if (!call.header.uneven) {
    if (size_ > 1) TUTTI_RETURN_IF_ERROR(compare(call.header));
    return agreed;
  }
  agreed.send_rows.resize(static_cast<size_t>(size_));
  if (size_ == 1) {
    agreed.headers.push_back(call.header);
    agreed.send_rows[0].assign(call.send_rows.begin(), call.send_rows.end());
    return agreed;
  }
  std::string mine;
  WireWriter writer(&mine);
  std::string header;
  AppendCallHeader(call.header, &header);
  writer.PutText(header);
  for (const int64_t rows : call.send_rows) writer.Put(rows);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> told, exchange(std::move(mine)));
  std::vector<const CallHeader*> pointers;
  agreed.headers.reserve(told.size());
  for (size_t rank = 0; rank < told.size(); ++rank) {
    WireReader reader(told[rank]);
    TUTTI_ASSIGN_OR_RETURN(CallHeader parsed, ParseCallHeader(reader.TakeText()));
    pointers.push_back(&agreed.headers.emplace_back(std::move(parsed)));
    while (reader.remaining() >= sizeof(int64_t)) {
      agreed.send_rows[rank].push_back(reader.Take<int64_t>());
    }
  }
  TUTTI_RETURN_IF_ERROR(CheckSameCall(pointers, label));
  return agreed;
}

Status GpuRanks::Run(CollectiveCall* call, const Agreement& agreed, const GpuWait& wait,
                     int64_t peer) {
  // An error of the epoch ends the wait, and so does one that NCCL has found.
  const std::function<Status()> failure = [&]() -> Status {
    if (wait.failure != nullptr) TUTTI_RETURN_IF_ERROR((*wait.failure)());
    Status found = communicator_->Poll();
    return found.ok() ? found : std::move(found).WithPrefix("NCCL");
  };
  Status status =
      RunByNccl({*communicator_, stream_, rank_, size_, peer}, call, agreed,
                {wait.options, wait.clock, &failure});
  // An operation that NCCL has given up can be over before the wait has asked.
  if (status.ok()) return failure();
  // Another rank of this process may have aborted this one, too, when the epoch ended; why it did
  // says more.
  if (wait.failure != nullptr) {
    Status lost = (*wait.failure)();
    if (!lost.ok()) return lost;
  }
  return status;
}

// What comes of an abort that hangs, the plugin says.
void GpuRanks::Abort() {
  if (!communicator_) return;
  const Ref<GpuCommunicator> one[] = {std::move(communicator_)};
  const CallOptions options = CallOptions::WithTimeout(RealClock(), kMostAbortNs);
  one[0]->place().plugin->aborts().Abort(one, {&options, &RealClock(), nullptr}).rep();
  membership_.reset();
  if (why_not_.empty()) why_not_ = "it was aborted";
}

}  // namespace tutti

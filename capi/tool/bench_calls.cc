#include "capi/tool/bench_calls.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "capi/tool/mapped_memory.h"

namespace tutti::tool {
namespace {

constexpr int64_t kRoot = 0;
constexpr size_t kLineBytes = 64;
constexpr size_t kMaxSets = 16;

}  // namespace

BenchCalls::BenchCalls(const Subject& subject, tutti_runtime* runtime,
                       tutti_communicator* communicator)
    : collective_(*subject.collective),
      dtype_(subject.dtype),
      op_(subject.op),
      tensors_(subject.tensors),
      mapped_(subject.mapped),
      runtime_(runtime),
      communicator_(communicator),
      rank_(tutti_communicator_get_rank(communicator)),
      size_(tutti_communicator_get_size(communicator)),
      item_(tutti_dtype_get_size(subject.dtype)) {}

CStatus BenchCalls::Begin() {
  return BenchPattern::Make(runtime_, dtype_, collective_.reduces ? op_ : 0, size_, &pattern_);
}

BenchCalls::Counts BenchCalls::CountsOf(int64_t bytes) const {
  if (bytes == 0) return {};
  Counts counts;
  counts.whole = std::max<int64_t>(1, bytes / static_cast<int64_t>(item_));
  int64_t shares = tensors_;
  if (collective_.shares == BenchShares::kEqual) shares = size_;
  if (collective_.shares == BenchShares::kUneven) shares = UnitsOfAll(size_);
  if (shares == 1) return counts;
  counts.share = std::max<int64_t>(1, counts.whole / shares);
  counts.whole = counts.share * shares;
  return counts;
}

int64_t BenchCalls::BytesOf(const Counts& counts) const {
  return counts.whole * static_cast<int64_t>(item_);
}

size_t BenchCalls::NumSets(const Counts& counts) const {
  const int64_t elements =
      ElementsOf(collective_.input, counts) + ElementsOf(collective_.output, counts);
  const size_t bytes = std::max<size_t>(static_cast<size_t>(elements) * item_, 1);
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t cache_bytes = cache > 0 ? static_cast<size_t>(cache) : size_t{32} << 20;
  return std::clamp(cache_bytes / bytes + 1, size_t{1}, kMaxSets);
}

int64_t BenchCalls::ElementsOf(BenchPart part, const Counts& counts) const {
  switch (part) {
    case BenchPart::kNone: return 0;
    case BenchPart::kWhole: return counts.whole;
    case BenchPart::kShare: return counts.share;
    case BenchPart::kOwnUnits: return UnitsOfRank(rank_) * counts.share;
  }
  return 0;
}

CStatus BenchCalls::Create(int64_t elements, CTensor* tensor) const {
  if (mapped_) {
    return CStatus(
        tutti_communicator_create_tensor(communicator_, dtype_, 1, &elements, Out(tensor)));
  }
  return CStatus(tutti_tensor_create(runtime_, dtype_, 1, &elements, nullptr, Out(tensor)));
}

// In place a set has one tensor, and maybe a view of it, for both sides.
CStatus BenchCalls::MakeSet(const Counts& counts, bool in_place, TensorSet* set) const {
  const int64_t input = ElementsOf(collective_.input, counts) / tensors_;
  const int64_t output = ElementsOf(collective_.output, counts) / tensors_;
  const bool has_input = collective_.input != BenchPart::kNone;
  const bool has_output = collective_.output != BenchPart::kNone && !collective_.makes_output;
  if (collective_.shares == BenchShares::kUneven) {
    for (int64_t to = 0; to < size_; ++to) {
      set->rows.push_back(UnitsBetween(PlaceOf(counts), rank_, to) * counts.share);
    }
  }
  const bool apart = !in_place || !has_input || !has_output;
  for (int64_t i = 0; i < tensors_; ++i) {
    if (has_input && (apart || input > output)) {
      TUTTI_TOOL_RETURN_IF_FAILED(Create(input, &set->inputs.emplace_back()));
      set->call_inputs.push_back(set->inputs.back().get());
    }
    if (has_output && (apart || input <= output)) {
      TUTTI_TOOL_RETURN_IF_FAILED(Create(output, &set->outputs.emplace_back()));
      set->call_outputs.push_back(set->outputs.back().get());
    }
    if (apart) continue;
    tutti_tensor* other = input > output ? set->inputs.back().get() : set->outputs.back().get();
    if (input != output) {
      TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_slice(other, 0, rank_ * counts.share,
                                                     (rank_ + 1) * counts.share,
                                                     Out(&set->parts.emplace_back())));
      other = set->parts.back().get();
    }
    if (input > output) {
      set->call_outputs.push_back(other);
    } else {
      set->call_inputs.push_back(other);
    }
  }
  return nullptr;
}

CStatus BenchCalls::Fill(const Counts& counts, TensorSet* set) const {
  for (const std::vector<CTensor>* side : {&set->outputs, &set->inputs}) {
    for (const CTensor& tensor : *side) {
      void* data = nullptr;
      TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_get_mutable_data(tensor.get(), &data));
      std::memset(data, 0xa5, tutti_tensor_get_byte_size(tensor.get()));
    }
  }
  // Broadcast has one tensor only, and the root's is its input.
  const bool has_input = collective_.input != BenchPart::kNone;
  if (!has_input && !(collective_.always_in_place && rank_ == kRoot)) return nullptr;
  const int64_t each =
      ElementsOf(has_input ? collective_.input : collective_.output, counts) / tensors_;
  for (int64_t i = 0; i < tensors_; ++i) {
    const auto place = static_cast<size_t>(i);
    // The pointer is taken where it may be written: of the side that the call gets as input.
    const tutti_tensor* const tensor =
        has_input ? set->call_inputs[place] : set->call_outputs[place];
    void* data = nullptr;
    TUTTI_TOOL_RETURN_IF_FAILED(
        tutti_tensor_get_mutable_data(const_cast<tutti_tensor*>(tensor), &data));
    pattern_.Fill(rank_, i * each, each, data);
  }
  return nullptr;
}

CStatus BenchCalls::WriteInputsAnew(TensorSet* set) const {
  // Broadcast has one tensor only, and the root's is its input.
  const bool from_output = collective_.always_in_place && rank_ == kRoot;
  for (const CTensor& tensor : from_output ? set->outputs : set->inputs) {
    void* data = nullptr;
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_get_mutable_data(tensor.get(), &data));
    auto* const bytes = static_cast<volatile unsigned char*>(data);
    const size_t end = tutti_tensor_get_byte_size(tensor.get());
    for (size_t at = 0; at < end; at += kLineBytes) bytes[at] = bytes[at];
  }
  return nullptr;
}

CStatus BenchCalls::ReadOutputs(const TensorSet& set) const {
  for (const tutti_tensor* const tensor : set.call_outputs) {
    const auto* const bytes =
        static_cast<const volatile unsigned char*>(tutti_tensor_get_data(tensor));
    const size_t end = tutti_tensor_get_byte_size(tensor);
    for (size_t at = 0; at < end; at += kLineBytes) (void)bytes[at];
  }
  return nullptr;
}

BenchPlace BenchCalls::PlaceOf(const Counts& counts) const {
  return BenchPlace{size_, rank_, kRoot, counts.share};
}

BenchCall BenchCalls::CallOf(TensorSet* set) const {
  BenchCall call;
  call.communicator = communicator_;
  call.inputs = set->call_inputs;
  call.outputs = set->call_outputs;
  call.made = &set->made;
  call.op = op_;
  call.root = kRoot;
  call.rows = set->rows;
  return call;
}

CStatus BenchCalls::Call(TensorSet* set) const {
  const BenchCall call = CallOf(set);
  return CStatus(tensors_ > 1 ? collective_.call_many(call) : collective_.call(call));
}

CStatus BenchCalls::Start(TensorSet* set, CFuture* future) const {
  const BenchCall call = CallOf(set);
  return CStatus(tensors_ > 1 ? collective_.start_many(call, Out(future))
                              : collective_.start(call, Out(future)));
}

CStatus BenchCalls::Complete(const CFuture& future, TensorSet* set) const {
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_future_wait(future.get(), nullptr));
  CValue value;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_future_result(future.get(), Out(&value)));
  if (!collective_.makes_output || value == nullptr) return nullptr;
  const tutti_tensor* const made = tutti_value_get_leaf_tensor(value.get(), 0);
  tutti_tensor_retain(made);
  set->made.reset(const_cast<tutti_tensor*>(made));
  return nullptr;
}

int64_t BenchCalls::CountWrong(const Counts& counts, const TensorSet& set) const {
  if (collective_.output == BenchPart::kNone) return 0;
  if (collective_.only_at_root && rank_ != kRoot) return 0;
  const int64_t elements = ElementsOf(collective_.output, counts) / tensors_;
  int64_t wrong = 0;
  for (int64_t i = 0; i < tensors_; ++i) {
    const tutti_tensor* const output =
        collective_.makes_output ? set.made.get() : set.call_outputs[static_cast<size_t>(i)];
    if (output == nullptr || tutti_tensor_get_element_count(output) != elements) {
      wrong += elements;
      continue;
    }
    const auto* data = static_cast<const std::byte*>(tutti_tensor_get_data(output));
    for (const BenchRun& run : collective_.runs(PlaceOf(counts), elements)) {
      wrong += pattern_.CountWrong(run.rank, i * elements + run.index, run.count, data);
      data += static_cast<size_t>(run.count) * item_;
    }
  }
  return wrong;
}

bool BenchCalls::IsMapped(const std::vector<TensorSet>& sets) {
  const MappedMemory mapped = MappedMemory::OfThisProcess();
  for (const TensorSet& set : sets) {
    for (const std::vector<CTensor>* side : {&set.inputs, &set.outputs}) {
      for (const CTensor& tensor : *side) {
        if (!mapped.Holds(tutti_tensor_get_data(tensor.get()),
                          tutti_tensor_get_byte_size(tensor.get()))) {
          return false;
        }
      }
    }
  }
  return true;
}

CStatus BenchCalls::Barrier() const {
  return CStatus(tutti_communicator_barrier(communicator_, nullptr));
}

CStatus BenchCalls::AgreeOnNumberOfRank0(int64_t* number) const {
  CTensor tensor;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_create_from_data(runtime_, TUTTI_DTYPE_INT64, 0, nullptr,
                                                            number, sizeof(*number),
                                                            Out(&tensor)));
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_communicator_broadcast(communicator_, 0, nullptr, tensor.get()));
  std::memcpy(number, tutti_tensor_get_data(tensor.get()), sizeof(*number));
  return nullptr;
}

CStatus BenchCalls::Fold(tutti_dtype dtype, tutti_reduce_op op, void* number) const {
  return FoldNumber(runtime_, communicator_, dtype, op, number);
}

CStatus FoldNumber(tutti_runtime* runtime, tutti_communicator* communicator, tutti_dtype dtype,
                   tutti_reduce_op op, void* number) {
  CTensor tensor;
  const size_t bytes = tutti_dtype_get_size(dtype);
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_create_from_data(runtime, dtype, 0, nullptr, number,
                                                            bytes, Out(&tensor)));
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_communicator_all_reduce(communicator, tensor.get(), op, nullptr, tensor.get()));
  std::memcpy(number, tutti_tensor_get_data(tensor.get()), bytes);
  return nullptr;
}

}  // namespace tutti::tool

// Flat fold, for small payloads: every rank leaves a copy of its input with its entry, meets the
// peers once, and folds of all copies by itself what it is to have: the whole (all_reduce, the root
// of a reduce) or its share (reduce_scatter). Nobody reads the callers' memory, so nobody waits at
// the end: the cost is one meeting, and the copies of one call stay while the next begins.
//
// Two ranks swap their rooms between calls (LocalGroup::CopiedInput): each writes lines that its
// reading has moved to its caches, so that a line crosses once a call, and not twice. So flat folds
// of two ranks go much further than those of more, who would each fold what all have.

#include <array>
#include <cstring>
#include <vector>

#include "core/collective/call/call_record.h"
#include "core/collective/call/next_lines.h"
#include "core/collective/thread/local_algorithms.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// Inputs lie one after the other, aligned for every dtype.
constexpr size_t kInputAlign = 16;

size_t RoundUp(size_t bytes) { return (bytes + kInputAlign - 1) / kInputAlign * kInputAlign; }

size_t InputBytes(const TensorSignature& signature) {
  return static_cast<size_t>(signature.num_elements()) * ItemSize(signature.dtype);
}

bool IsFoldedAsFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

// The place of the share of `reader` in what `rank` copies of a reduce_scatter: the shares of the
// ranks behind it, in their order. What two ranks copy is read by the other one, all of it.
size_t PlaceOfShare(int64_t size, int64_t rank, int64_t reader) {
  return static_cast<size_t>((reader - rank - 1 + size) % size);
}

// Leaves a copy of a tensor of `bytes`, or of the shares of it that others fold.
void CopyInput(const CallHeader& header, int64_t size, int64_t rank, const void* input,
               size_t bytes, std::byte* to) {
  if (bytes == 0) return;
  if (header.op != CollectiveOp::kReduceScatter) {
    std::memcpy(to, input, bytes);
    return;
  }
  const size_t share = bytes / static_cast<size_t>(size);
  for (int64_t i = 1; i < size; ++i) {
    const int64_t reader = (rank + i) % size;
    std::memcpy(to + PlaceOfShare(size, rank, reader) * share,
                static_cast<const std::byte*>(input) + static_cast<size_t>(reader) * share, share);
  }
}

// Pointers for the usual numbers of ranks without asking for memory.
class Inputs {
 public:
  explicit Inputs(int64_t size) {
    if (static_cast<size_t>(size) > few_.size()) many_.resize(static_cast<size_t>(size));
    span_ = many_.empty() ? std::span<const void*>(few_.data(), static_cast<size_t>(size))
                          : std::span<const void*>(many_);
  }
  const void*& operator[](int64_t rank) { return span_[static_cast<size_t>(rank)]; }
  std::span<const void* const> span() const { return span_; }

 private:
  std::array<const void*, 16> few_;
  std::vector<const void*> many_;
  std::span<const void*> span_;
};

}  // namespace

bool ChoosesFlatFold(const LocalGroup& group, const CallHeader& header) {
  const size_t room = group.copied_input_bytes();
  size_t bytes = 0;
  size_t folded_bytes = 0;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const size_t input_bytes = RoundUp(InputBytes(header.tensor(i)));
    bytes += input_bytes;
    // 16-bit floats become as many float32, which makes folding dearer than moving, so that it had
    // better be shared between the ranks.
    folded_bytes += IsFoldedAsFloat(header.tensor(i).dtype) ? 2 * input_bytes : input_bytes;
    if (bytes > room) return false;
  }
  return group.selector().Chooses(CollectiveAlgorithm::kFlatFold, header.op,
                                  static_cast<int64_t>(folded_bytes));
}

Status FlatFold(LocalGroup& group, int64_t rank, const CollectiveCall& call) {
  size_t all_bytes = 0;
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    all_bytes += RoundUp(InputBytes(call.header.tensor(i)));
  }
  std::byte* const copied = group.CopiedInput(rank, rank, call.sequence, all_bytes);
  size_t offset = 0;
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const size_t bytes = InputBytes(call.header.tensor(i));
    CopyInput(call.header, group.size(), rank, call.memory[i].input, bytes, copied + offset);
    offset += RoundUp(bytes);
  }
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, call, LocalGroup::Access::kOwnMemory));

  if (call.header.op == CollectiveOp::kReduce && rank != call.header.root) return OkStatus();
  const bool is_shared = call.header.op == CollectiveOp::kReduceScatter;
  Inputs inputs(group.size());
  offset = 0;
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const TensorSignature& signature = call.header.tensor(i);
    const int64_t elements = signature.num_elements() / (is_shared ? group.size() : 1);
    const size_t share =
        is_shared ? static_cast<size_t>(elements) * ItemSize(signature.dtype) : 0;
    for (int64_t peer = 0; peer < group.size(); ++peer) {
      // The rank's own copy would come back from the peers' caches.
      inputs[peer] = peer == rank
                         ? static_cast<const std::byte*>(call.memory[i].input) +
                               static_cast<size_t>(rank) * share
                         : group.CopiedInput(rank, peer, call.sequence, all_bytes) + offset +
                               PlaceOfShare(group.size(), peer, rank) * share;
    }
    TUTTI_RETURN_IF_ERROR(ReduceInto(call.header.reduction, signature.dtype, inputs.span(),
                                     elements, call.memory[i].output));
    offset += RoundUp(InputBytes(signature));
  }
  return OkStatus();
}

KnownLocalFold MakeKnownFold(const CallHeader& header) {
  KnownLocalFold known;
  known.header.Encode(header);
  known.input_bytes = InputBytes(header.first);
  known.copied_bytes = RoundUp(known.input_bytes);
  known.elements = header.first.num_elements();
  return known;
}

Status FlatFoldAgain(LocalGroup& group, int64_t rank, const KnownLocalFold& known,
                     CollectiveCall* known_call) {
  const CollectiveCall& call = *known_call;
  group.BeginKnown(rank, call, known.header);
  const void* const input = call.memory[0].input;
  std::memcpy(group.CopiedInput(rank, rank, call.sequence, known.copied_bytes), input,
              known.input_bytes);
  group.Arrive(rank, call);
  RecordKnownCall(known_call);
  TUTTI_RETURN_IF_ERROR(group.MeetArrived(rank, call, LocalGroup::Access::kOwnMemory));

  Inputs inputs(group.size());
  for (int64_t peer = 0; peer < group.size(); ++peer) {
    inputs[peer] = group.CopiedInput(rank, peer, call.sequence, known.copied_bytes);
  }
  inputs[rank] = input;
  TUTTI_RETURN_IF_ERROR(ReduceInto(call.header.reduction, call.header.first.dtype, inputs.span(),
                                   known.elements, call.memory[0].output));
  if (group.size() > 2 && TakesNextLines(known.input_bytes)) {
    TakeNextLines(group.CopiedInput(rank, rank, call.sequence + 1, known.copied_bytes),
                  known.input_bytes);
  }
  return OkStatus();
}

}  // namespace tutti

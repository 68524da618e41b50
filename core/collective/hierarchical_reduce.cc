// Folds over several hosts. A mean is a sum that is divided where it is complete.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/hierarchical_transport.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

// From here on every rank of a host takes a share.
constexpr int64_t kSharesFromBytes = 32 << 10;
constexpr int64_t kAlignment = static_cast<int64_t>(AlignedRoom::kAlignment);

// What partial results of it are.
DType WorkType(DType dtype, ReduceOp op) {
  const bool widens = (dtype == DType::kFloat16 || dtype == DType::kBfloat16) &&
                      (op == ReduceOp::kSum || op == ReduceOp::kMean || op == ReduceOp::kProd);
  return widens ? DType::kFloat32 : dtype;
}

ReduceOp PartialOp(ReduceOp op) { return op == ReduceOp::kMean ? ReduceOp::kSum : op; }

template <typename T>
void DivideBy(T divisor, T* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] /= divisor;
}

// Makes means of sums.
void Finish(ReduceOp op, DType dtype, int64_t ranks, int64_t count, void* values) {
  if (op != ReduceOp::kMean) return;
  switch (dtype) {
    case DType::kFloat32:
      return DivideBy(static_cast<float>(ranks), static_cast<float*>(values), count);
    case DType::kComplex64:
      return DivideBy(static_cast<float>(ranks), static_cast<float*>(values), 2 * count);
    case DType::kFloat64:
      return DivideBy(static_cast<double>(ranks), static_cast<double*>(values), count);
    case DType::kComplex128:
      return DivideBy(static_cast<double>(ranks), static_cast<double*>(values), 2 * count);
    default: return;  // 16-bit floats are float32 here, and integers go another way
  }
}

CallHeader HeaderOf(CollectiveOp op, ReduceOp reduction, DType dtype, const Dims& dims,
                    int64_t root = 0) {
  CallHeader header;
  header.op = op;
  header.reduction = PartialOp(reduction);
  header.root = root;
  header.num_tensors = 1;
  header.first = TensorSignature{dtype, dims};
  return header;
}

int64_t RoundUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Between `dtype` and the work type of it.
void Convert(DType from, const void* source, DType to, void* destination, int64_t count) {
  if (count == 0 || source == destination) return;
  if (from == to) {
    std::memcpy(destination, source, static_cast<size_t>(count) * ItemSize(from));
  } else {
    CastElements(from, source, to, destination, count);
  }
}

Status NoMemory(int64_t bytes) {
  return ResourceExhausted("no memory for {} bytes of partial results", bytes);
}

void* At(void* memory, int64_t bytes) { return static_cast<std::byte*>(memory) + bytes; }
const void* At(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

}  // namespace

int64_t HierarchicalTransport::Piece::bytes() const {
  return count * static_cast<int64_t>(ItemSize(dtype));
}

Status HierarchicalTransport::AllReduce(const CollectiveCall& call) {
  const CallHeader& header = call.header;
  if (header.num_tensors == 0) return Barrier(call);
  const DType work = WorkType(header.first.dtype, header.reduction);
  if (header.num_tensors == 1 && work == header.first.dtype) {
    return AllReducePiece(call, Piece{work, header.first.num_elements(), call.memory[0].input,
                                      call.memory[0].output});
  }
  // All tensors of a dtype are one payload.
  std::vector<Piece> pieces;
  std::vector<size_t> piece_of(header.num_tensors);
  int64_t bytes = 0;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const DType dtype = WorkType(header.tensor(i).dtype, header.reduction);
    const auto found = std::find_if(pieces.begin(), pieces.end(),
                                    [&](const Piece& piece) { return piece.dtype == dtype; });
    piece_of[i] = static_cast<size_t>(found - pieces.begin());
    if (found == pieces.end()) pieces.push_back(Piece{dtype, 0, nullptr, nullptr});
    pieces[piece_of[i]].count += header.tensor(i).num_elements();
  }
  for (const Piece& piece : pieces) bytes += RoundUp(piece.bytes());
  if (!scratch_.Reserve(static_cast<size_t>(std::max(bytes, kAlignment)))) return NoMemory(bytes);
  int64_t offset = 0;
  for (Piece& piece : pieces) {
    piece.input = piece.output = At(scratch_.data(), offset);
    offset += RoundUp(piece.bytes());
  }
  const auto for_each = [&](const auto& convert) {
    std::vector<int64_t> done(pieces.size(), 0);
    for (size_t i = 0; i < header.num_tensors; ++i) {
      const Piece& piece = pieces[piece_of[i]];
      const TensorSignature& tensor = header.tensor(i);
      const auto item_bytes = static_cast<int64_t>(ItemSize(piece.dtype));
      convert(call.memory[i], tensor, piece.dtype,
              At(piece.output, done[piece_of[i]] * item_bytes));
      done[piece_of[i]] += tensor.num_elements();
    }
  };
  for_each([](const CollectiveMemory& memory, const TensorSignature& tensor, DType dtype,
              void* place) {
    Convert(tensor.dtype, memory.input, dtype, place, tensor.num_elements());
  });
  for (const Piece& piece : pieces) TUTTI_RETURN_IF_ERROR(AllReducePiece(call, piece));
  for_each([](const CollectiveMemory& memory, const TensorSignature& tensor, DType dtype,
              void* place) {
    Convert(dtype, place, tensor.dtype, memory.output, tensor.num_elements());
  });
  return OkStatus();
}

CollectiveMemory HierarchicalTransport::Spread(void* memory) const {
  return is_leader() ? CollectiveMemory{memory, nullptr} : CollectiveMemory{nullptr, memory};
}

Status HierarchicalTransport::AllReducePiece(const CollectiveCall& call, const Piece& piece) {
  return options_.layout.equal() && piece.bytes() >= kSharesFromBytes ? ByShares(call, piece)
                                                                      : ByLeaders(call, piece);
}

Status HierarchicalTransport::ByLeaders(const CollectiveCall& call, const Piece& piece) {
  const ReduceOp op = call.header.reduction;
  const Dims dims = {piece.count};
  const CollectiveMemory whole{piece.input, piece.output};
  CollectiveMemory partial = whole;
  if (inside_) {
    const CollectiveMemory own{piece.input, is_leader() ? piece.output : nullptr};
    TUTTI_RETURN_IF_ERROR(Inside(call, HeaderOf(CollectiveOp::kReduce, op, piece.dtype, dims),
                                 std::span(&own, 1), Waits::kForRanks));
    partial.input = piece.output;
  }
  if (is_leader()) {
    TUTTI_RETURN_IF_ERROR(Between(call, HeaderOf(CollectiveOp::kAllReduce, op, piece.dtype, dims),
                                  std::span(&partial, 1)));
    Finish(op, piece.dtype, options_.size, piece.count, piece.output);
  }
  if (!inside_) return OkStatus();
  const CollectiveMemory result = Spread(piece.output);
  return Inside(call, HeaderOf(CollectiveOp::kBroadcast, op, piece.dtype, dims),
                std::span(&result, 1), Waits::kForRelay);
}

Status HierarchicalTransport::ByShares(const CollectiveCall& call, const Piece& piece) {
  const ReduceOp op = call.header.reduction;
  const int64_t ranks = ranks_here();
  const int64_t share = piece.count / ranks;
  const int64_t rest = piece.count % ranks;  // the leader's besides its share
  const auto item_bytes = static_cast<int64_t>(ItemSize(piece.dtype));
  const int64_t own = static_cast<int64_t>(place_) * share * item_bytes;
  const int64_t end = ranks * share * item_bytes;
  const Dims shares = {ranks, share};

  const CollectiveMemory scattered{piece.input, At(piece.output, own)};
  TUTTI_RETURN_IF_ERROR(Inside(call,
                               HeaderOf(CollectiveOp::kReduceScatter, op, piece.dtype, shares),
                               std::span(&scattered, 1), Waits::kForRanks));
  if (rest != 0) {
    const CollectiveMemory memory{At(piece.input, end),
                                  is_leader() ? At(piece.output, end) : nullptr};
    TUTTI_RETURN_IF_ERROR(Inside(call,
                                 HeaderOf(CollectiveOp::kReduce, op, piece.dtype, Dims{rest}),
                                 std::span(&memory, 1), Waits::kForRanks));
  }

  CallHeader between = HeaderOf(CollectiveOp::kAllReduce, op, piece.dtype, Dims{share});
  std::array<CollectiveMemory, 2> memory;
  memory[0] = {At(piece.output, own), At(piece.output, own)};
  memory[1] = {At(piece.output, end), At(piece.output, end)};
  if (is_leader() && rest != 0) {
    between.num_tensors = 2;
    between.rest.push_back(TensorSignature{piece.dtype, Dims{rest}});
  }
  TUTTI_RETURN_IF_ERROR(Between(call, between, std::span(memory).first(between.num_tensors)));
  Finish(op, piece.dtype, options_.size, share, At(piece.output, own));
  if (between.num_tensors == 2) {
    Finish(op, piece.dtype, options_.size, rest, At(piece.output, end));
  }

  const CollectiveMemory gathered{At(piece.output, own), piece.output};
  TUTTI_RETURN_IF_ERROR(Inside(call,
                               HeaderOf(CollectiveOp::kAllGather, op, piece.dtype, Dims{share}),
                               std::span(&gathered, 1), Waits::kForRelay));
  if (rest == 0) return OkStatus();
  const CollectiveMemory last = Spread(At(piece.output, end));
  return Inside(call, HeaderOf(CollectiveOp::kBroadcast, op, piece.dtype, Dims{rest}),
                std::span(&last, 1), Waits::kForRelay);
}

Status HierarchicalTransport::Reduce(const CollectiveCall& call) {
  const CallHeader& header = call.header;
  const ReduceOp op = header.reduction;
  const DType work = WorkType(header.first.dtype, op);
  const int64_t count = header.first.num_elements();
  const Dims dims = {count};
  const auto [root_host, root_place] = options_.layout.PlaceOf(header.root);
  const bool is_root = options_.rank == header.root;

  // The input in the work type, and a partial result.
  const int64_t bytes = std::max(RoundUp(count * static_cast<int64_t>(ItemSize(work))),
                                 kAlignment);
  if (!scratch_.Reserve(static_cast<size_t>(2 * bytes))) return NoMemory(2 * bytes);
  const void* input = call.memory[0].input;
  if (work != header.first.dtype) {
    Convert(header.first.dtype, input, work, scratch_.data(), count);
    input = scratch_.data();
  }
  void* const partial = At(scratch_.data(), bytes);

  CollectiveMemory memory{input, is_leader() ? partial : nullptr};
  if (inside_) {
    TUTTI_RETURN_IF_ERROR(Inside(call, HeaderOf(CollectiveOp::kReduce, op, work, dims),
                                 std::span(&memory, 1), Waits::kForRanks));
    input = partial;
  }
  if (is_leader()) {
    memory = {input, host_ == root_host ? partial : nullptr};
    TUTTI_RETURN_IF_ERROR(Between(call,
                                  HeaderOf(CollectiveOp::kReduce, op, work, dims,
                                           static_cast<int64_t>(root_host)),
                                  std::span(&memory, 1)));
    if (host_ == root_host) Finish(op, work, options_.size, count, partial);
  }
  if (host_ == root_host && root_place != 0) {
    memory = Spread(partial);
    TUTTI_RETURN_IF_ERROR(Inside(call, HeaderOf(CollectiveOp::kBroadcast, op, work, dims),
                                 std::span(&memory, 1), Waits::kForRelay));
  }
  if (is_root) Convert(work, partial, header.first.dtype, call.memory[0].output, count);
  // Who has nothing to wait for waits to hear that the other hosts are in the same call.
  return host_ == root_host && root_place != 0 ? OkStatus() : AwaitLeader(call);
}

Status HierarchicalTransport::ReduceScatter(const CollectiveCall& call) {
  const CallHeader& header = call.header;
  const ReduceOp op = header.reduction;
  const DType work = WorkType(header.first.dtype, op);
  const int64_t ranks = ranks_here();
  const int64_t hosts = num_hosts();
  const int64_t share = header.first.num_elements() / options_.size;
  const auto item_bytes = static_cast<int64_t>(ItemSize(header.first.dtype));
  const int64_t share_bytes = share * static_cast<int64_t>(ItemSize(work));

  // By place and host, so that what goes to the ranks of a place lies together.
  const int64_t all_bytes = std::max(RoundUp(options_.size * share_bytes), kAlignment);
  const int64_t column_bytes = std::max(RoundUp(hosts * share_bytes), kAlignment);
  const int64_t bytes = all_bytes + 2 * column_bytes;
  if (!scratch_.Reserve(static_cast<size_t>(bytes))) return NoMemory(bytes);
  void* const sorted = scratch_.data();
  void* const column = At(sorted, all_bytes);
  void* const result = At(column, column_bytes);
  int64_t done = 0;
  for (size_t place = 0; place < here_.size(); ++place) {
    for (const std::vector<int64_t>& host : options_.layout.hosts) {
      Convert(header.first.dtype, At(call.memory[0].input, host[place] * share * item_bytes), work,
              At(sorted, done), share);
      done += share_bytes;
    }
  }
  CollectiveMemory memory{sorted, column};
  TUTTI_RETURN_IF_ERROR(Inside(call,
                               HeaderOf(CollectiveOp::kReduceScatter, op, work,
                                        Dims{ranks, hosts * share}),
                               std::span(&memory, 1), Waits::kForRanks));
  memory = {column, result};
  TUTTI_RETURN_IF_ERROR(Between(
      call, HeaderOf(CollectiveOp::kReduceScatter, op, work, Dims{hosts, share}),
      std::span(&memory, 1)));
  Finish(op, work, options_.size, share, result);
  Convert(work, result, header.first.dtype, call.memory[0].output, share);
  return OkStatus();
}

}  // namespace tutti

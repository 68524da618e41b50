// Folds over several hosts. A mean is a sum that is divided where it is complete.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/hosts/hierarchical_transport.h"
#include "core/tensor/cast.h"
#include "core/tensor/float_mode.h"

namespace tutti {
namespace {

// From here on every rank of a host takes a share.
constexpr int64_t kSharesFromBytes = 32 << 10;
constexpr int64_t kRoomAlign = static_cast<int64_t>(AlignedRoom::kAlignment);

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
  const DefaultFloatMode mode;
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

int64_t RoundUp(int64_t bytes) { return (bytes + kRoomAlign - 1) / kRoomAlign * kRoomAlign; }

// Between `dtype` and the work type of it.
void Convert(DType from, const void* source, DType to, void* destination, int64_t count) {
  if (count == 0 || source == destination) return;
  if (from == to) {
    std::memcpy(destination, source, static_cast<size_t>(count) * ItemSize(from));
  } else {
    const DefaultFloatMode mode;
    CastElements(from, source, to, destination, count);
  }
}

Status NoMemory(int64_t bytes) {
  return ResourceExhausted("no memory for {} bytes of partial results", bytes);
}

void* Past(void* memory, int64_t bytes) { return static_cast<std::byte*>(memory) + bytes; }
const void* Past(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

}  // namespace

int64_t HierarchicalTransport::Piece::bytes() const {
  return count * static_cast<int64_t>(ItemSize(dtype));
}

HierarchicalTransport::Piece HierarchicalTransport::Piece::Part(int64_t begin,
                                                                int64_t end) const {
  const int64_t offset = begin * static_cast<int64_t>(ItemSize(dtype));
  Piece part;
  part.dtype = dtype;
  part.count = end - begin;
  part.input = Past(input, offset);
  part.output = Past(output, offset);
  return part;
}

Status HierarchicalTransport::AllReduce(const CollectiveCall& call) {
  const CallHeader& header = call.header;
  if (header.num_tensors == 0) return Barrier(call);
  const DType work = WorkType(header.first.dtype, header.reduction);
  if (header.num_tensors == 1 && work == header.first.dtype) {
    Piece piece;
    piece.dtype = work;
    piece.count = header.first.num_elements();
    piece.input = call.memory[0].input;
    piece.output = call.memory[0].output;
    return AllReducePiece(call, piece);
  }
  // All tensors of a dtype are one payload.
  struct Place {
    size_t tensor = 0;
    int64_t begin = 0;  // in the payload
    int64_t end = 0;
  };
  std::vector<Piece> pieces;
  std::vector<std::vector<Place>> places;  // by piece
  int64_t bytes = 0;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const DType dtype = WorkType(header.tensor(i).dtype, header.reduction);
    const auto found = std::find_if(pieces.begin(), pieces.end(),
                                    [&](const Piece& piece) { return piece.dtype == dtype; });
    const auto index = static_cast<size_t>(found - pieces.begin());
    if (found == pieces.end()) {
      pieces.emplace_back().dtype = dtype;
      places.emplace_back();
    }
    Piece& piece = pieces[index];
    const int64_t end = piece.count + header.tensor(i).num_elements();
    places[index].push_back(Place{i, piece.count, end});
    piece.count = end;
  }
  for (const Piece& piece : pieces) bytes += RoundUp(piece.bytes());
  if (!scratch_.Reserve(static_cast<size_t>(std::max(bytes, kRoomAlign)))) return NoMemory(bytes);
  int64_t offset = 0;
  for (size_t p = 0; p < pieces.size(); ++p) {
    Piece& piece = pieces[p];
    piece.input = piece.output = Past(scratch_.data(), offset);
    offset += RoundUp(piece.bytes());
    // Calls visit(tensor, its first element there, place in the payload, elements).
    const auto for_each = [&header, &piece, of_piece = &places[p]](
                              int64_t begin, int64_t end, const auto& visit) {
      const auto item_bytes = static_cast<int64_t>(ItemSize(piece.dtype));
      auto place = std::partition_point(of_piece->begin(), of_piece->end(),
                                        [&](const Place& at) { return at.end <= begin; });
      for (; place != of_piece->end() && place->begin < end; ++place) {
        const int64_t from = std::max(begin, place->begin);
        visit(place->tensor, header.tensor(place->tensor).dtype, from - place->begin,
              Past(piece.output, from * item_bytes), std::min(end, place->end) - from);
      }
    };
    piece.load = [for_each, &call, dtype = piece.dtype](int64_t begin, int64_t end) {
      for_each(begin, end, [&](size_t tensor, DType from, int64_t first, void* to, int64_t count) {
        const auto item_bytes = static_cast<int64_t>(ItemSize(from));
        Convert(from, Past(call.memory[tensor].input, first * item_bytes), dtype, to, count);
      });
    };
    piece.store = [for_each, &call, dtype = piece.dtype](int64_t begin, int64_t end) {
      for_each(begin, end, [&](size_t tensor, DType to, int64_t first, void* from, int64_t count) {
        const auto item_bytes = static_cast<int64_t>(ItemSize(to));
        Convert(dtype, from, to, Past(call.memory[tensor].output, first * item_bytes), count);
      });
    };
  }
  for (const Piece& piece : pieces) TUTTI_RETURN_IF_ERROR(AllReducePiece(call, piece));
  return OkStatus();
}

Status HierarchicalTransport::AllReducePiece(const CollectiveCall& call, const Piece& piece) {
  const bool shares = options_.layout.equal() && piece.bytes() >= kSharesFromBytes;
  const Chunks chunks =
      ChunksOf(piece.count, static_cast<int64_t>(ItemSize(piece.dtype)), options_.size);
  const auto part = [&](int64_t chunk) {
    return piece.Part(chunks.Begin(chunk), chunks.Begin(chunk + 1));
  };
  HostPipeline::Stages stages;
  stages.first = [&](int64_t chunk) {
    if (piece.load) piece.load(chunks.Begin(chunk), chunks.Begin(chunk + 1));
    return shares ? FoldShares(call, part(chunk)) : FoldAtLeader(call, part(chunk));
  };
  if (shares || is_leader()) {
    stages.between = [&](int64_t chunk, Cancellation* stop) {
      return shares ? FoldAmongHosts(call, part(chunk), stop)
                    : FoldAmongLeaders(call, part(chunk), stop);
    };
  }
  stages.last = [&](int64_t chunk) {
    TUTTI_RETURN_IF_ERROR(shares ? GatherShares(call, part(chunk))
                                 : SpreadFromLeader(call, part(chunk)));
    if (piece.store) piece.store(chunks.Begin(chunk), chunks.Begin(chunk + 1));
    return OkStatus();
  };
  return RunChunks(chunks.num, std::move(stages));
}

// ---- At the leaders ----

CollectiveMemory HierarchicalTransport::Spread(void* memory) const {
  return is_leader() ? CollectiveMemory{memory, nullptr} : CollectiveMemory{nullptr, memory};
}

Status HierarchicalTransport::FoldAtLeader(const CollectiveCall& call, const Piece& part) {
  if (!inside_) return OkStatus();
  const CollectiveMemory own{part.input, is_leader() ? part.output : nullptr};
  return Inside(call,
                HeaderOf(CollectiveOp::kReduce, call.header.reduction, part.dtype,
                         Dims{part.count}),
                std::span(&own, 1), Waits::kForRanks);
}

Status HierarchicalTransport::FoldAmongLeaders(const CollectiveCall& call, const Piece& part,
                                               Cancellation* stop) {
  const ReduceOp op = call.header.reduction;
  const CollectiveMemory partial{inside_ ? part.output : part.input, part.output};
  TUTTI_RETURN_IF_ERROR(
      Between(call, HeaderOf(CollectiveOp::kAllReduce, op, part.dtype, Dims{part.count}),
              std::span(&partial, 1), stop));
  Finish(op, part.dtype, options_.size, part.count, part.output);
  return OkStatus();
}

Status HierarchicalTransport::SpreadFromLeader(const CollectiveCall& call, const Piece& part) {
  if (!inside_) return OkStatus();
  const CollectiveMemory result = Spread(part.output);
  return Inside(call,
                HeaderOf(CollectiveOp::kBroadcast, call.header.reduction, part.dtype,
                         Dims{part.count}),
                std::span(&result, 1), Waits::kForRelay);
}

// ---- A share at each rank ----

HierarchicalTransport::Shares HierarchicalTransport::SharesOf(const Piece& part) const {
  const auto item_bytes = static_cast<int64_t>(ItemSize(part.dtype));
  Shares shares;
  shares.share = part.count / ranks_here();
  shares.rest = part.count % ranks_here();
  shares.own = static_cast<int64_t>(place_) * shares.share * item_bytes;
  shares.end = ranks_here() * shares.share * item_bytes;
  return shares;
}

Status HierarchicalTransport::FoldShares(const CollectiveCall& call, const Piece& part) {
  const ReduceOp op = call.header.reduction;
  const Shares shares = SharesOf(part);
  CollectiveMemory memory{part.input, Past(part.output, shares.own)};
  TUTTI_RETURN_IF_ERROR(Inside(call,
                               HeaderOf(CollectiveOp::kReduceScatter, op, part.dtype,
                                        Dims{ranks_here(), shares.share}),
                               std::span(&memory, 1), Waits::kForRanks));
  if (shares.rest == 0) return OkStatus();
  memory = {Past(part.input, shares.end), is_leader() ? Past(part.output, shares.end) : nullptr};
  return Inside(call, HeaderOf(CollectiveOp::kReduce, op, part.dtype, Dims{shares.rest}),
                std::span(&memory, 1), Waits::kForRanks);
}

Status HierarchicalTransport::FoldAmongHosts(const CollectiveCall& call, const Piece& part,
                                             Cancellation* stop) {
  const ReduceOp op = call.header.reduction;
  const Shares shares = SharesOf(part);
  CallHeader header = HeaderOf(CollectiveOp::kAllReduce, op, part.dtype, Dims{shares.share});
  void* const own = Past(part.output, shares.own);
  void* const end = Past(part.output, shares.end);
  const std::array<CollectiveMemory, 2> memory = {CollectiveMemory{own, own},
                                                  CollectiveMemory{end, end}};
  if (is_leader() && shares.rest != 0) {
    header.num_tensors = 2;
    header.rest.push_back(TensorSignature{part.dtype, Dims{shares.rest}});
  }
  TUTTI_RETURN_IF_ERROR(
      Between(call, header, std::span(memory).first(header.num_tensors), stop));
  Finish(op, part.dtype, options_.size, shares.share, own);
  if (header.num_tensors == 2) Finish(op, part.dtype, options_.size, shares.rest, end);
  return OkStatus();
}

Status HierarchicalTransport::GatherShares(const CollectiveCall& call, const Piece& part) {
  const ReduceOp op = call.header.reduction;
  const Shares shares = SharesOf(part);
  const CollectiveMemory gathered{Past(part.output, shares.own), part.output};
  TUTTI_RETURN_IF_ERROR(
      Inside(call, HeaderOf(CollectiveOp::kAllGather, op, part.dtype, Dims{shares.share}),
             std::span(&gathered, 1), Waits::kForRelay));
  if (shares.rest == 0) return OkStatus();
  const CollectiveMemory last = Spread(Past(part.output, shares.end));
  return Inside(call, HeaderOf(CollectiveOp::kBroadcast, op, part.dtype, Dims{shares.rest}),
                std::span(&last, 1), Waits::kForRelay);
}

// ---- Other folds ----

Status HierarchicalTransport::Reduce(const CollectiveCall& call) {
  const CallHeader& header = call.header;
  const ReduceOp op = header.reduction;
  const DType dtype = header.first.dtype;
  const DType work = WorkType(dtype, op);
  const int64_t count = header.first.num_elements();
  const auto item_bytes = static_cast<int64_t>(ItemSize(dtype));
  const auto work_bytes = static_cast<int64_t>(ItemSize(work));
  const auto [root_host, root_place] = options_.layout.PlaceOf(header.root);
  const bool is_root = options_.rank == header.root;
  const bool at_root_host = host_ == root_host;

  // The input in the work type, and a partial result.
  const int64_t bytes = std::max(RoundUp(count * work_bytes), kRoomAlign);
  if (!scratch_.Reserve(static_cast<size_t>(2 * bytes))) return NoMemory(2 * bytes);
  void* const widened = scratch_.data();
  void* const partial = Past(scratch_.data(), bytes);
  const bool widens = work != dtype;
  const void* const input = widens ? widened : call.memory[0].input;

  const Chunks chunks = ChunksOf(count, work_bytes, 1);
  const auto header_of = [&](CollectiveOp collective, int64_t chunk, int64_t root) {
    const int64_t elements = chunks.Begin(chunk + 1) - chunks.Begin(chunk);
    return HeaderOf(collective, op, work, Dims{elements}, root);
  };
  HostPipeline::Stages stages;
  stages.first = [&](int64_t chunk) {
    const int64_t begin = chunks.Begin(chunk);
    if (widens) {
      Convert(dtype, Past(call.memory[0].input, begin * item_bytes), work,
              Past(widened, begin * work_bytes), chunks.Begin(chunk + 1) - begin);
    }
    if (!inside_) return OkStatus();
    const CollectiveMemory memory{Past(input, begin * work_bytes),
                                  is_leader() ? Past(partial, begin * work_bytes) : nullptr};
    return Inside(call, header_of(CollectiveOp::kReduce, chunk, 0), std::span(&memory, 1),
                  Waits::kForRanks);
  };
  if (is_leader()) {
    stages.between = [&](int64_t chunk, Cancellation* stop) {
      const int64_t begin = chunks.Begin(chunk);
      void* const result = Past(partial, begin * work_bytes);
      const CollectiveMemory memory{inside_ ? result : Past(input, begin * work_bytes),
                                    at_root_host ? result : nullptr};
      TUTTI_RETURN_IF_ERROR(Between(
          call, header_of(CollectiveOp::kReduce, chunk, static_cast<int64_t>(root_host)),
          std::span(&memory, 1), stop));
      if (at_root_host) {
        Finish(op, work, options_.size, chunks.Begin(chunk + 1) - begin, result);
      }
      return OkStatus();
    };
  }
  const bool spreads = at_root_host && root_place != 0;
  stages.last = [&](int64_t chunk) {
    const int64_t begin = chunks.Begin(chunk);
    if (spreads) {
      const CollectiveMemory memory = Spread(Past(partial, begin * work_bytes));
      TUTTI_RETURN_IF_ERROR(Inside(call, header_of(CollectiveOp::kBroadcast, chunk, 0),
                                   std::span(&memory, 1), Waits::kForRelay));
    }
    if (is_root) {
      Convert(work, Past(partial, begin * work_bytes), dtype,
              Past(call.memory[0].output, begin * item_bytes), chunks.Begin(chunk + 1) - begin);
    }
    return OkStatus();
  };
  TUTTI_RETURN_IF_ERROR(RunChunks(chunks.num, std::move(stages)));
  // Who has nothing to wait for waits to hear that the other hosts are in the same call.
  return spreads ? OkStatus() : AwaitLeader(call);
}

Status HierarchicalTransport::ReduceScatter(const CollectiveCall& call) {
  const CallHeader& header = call.header;
  const ReduceOp op = header.reduction;
  const DType dtype = header.first.dtype;
  const DType work = WorkType(dtype, op);
  const int64_t ranks = ranks_here();
  const int64_t hosts = num_hosts();
  const int64_t share = header.first.num_elements() / options_.size;
  const auto item_bytes = static_cast<int64_t>(ItemSize(dtype));
  const auto work_bytes = static_cast<int64_t>(ItemSize(work));

  // A chunk is a part of every rank's share. By place and host, so that what goes to the ranks of
  // a place lies together. Two chunks may be under way beyond that.
  const Chunks chunks = ChunksOf(share, options_.size * work_bytes, 1);
  const int64_t most = share - (chunks.num - 1) * chunks.each;
  const int64_t all_bytes = std::max(RoundUp(options_.size * most * work_bytes), kRoomAlign);
  const int64_t column_bytes = std::max(RoundUp(hosts * most * work_bytes), kRoomAlign);
  const int64_t bytes = all_bytes + 4 * column_bytes;
  if (!scratch_.Reserve(static_cast<size_t>(bytes))) return NoMemory(bytes);
  void* const sorted = scratch_.data();
  const auto column = [&](int64_t chunk) {
    return Past(scratch_.data(), all_bytes + chunk % 2 * 2 * column_bytes);
  };
  const auto result = [&](int64_t chunk) { return Past(column(chunk), column_bytes); };

  HostPipeline::Stages stages;
  stages.first = [&](int64_t chunk) {
    const int64_t begin = chunks.Begin(chunk);
    const int64_t count = chunks.Begin(chunk + 1) - begin;
    int64_t done = 0;
    for (size_t place = 0; place < here_.size(); ++place) {
      for (const std::vector<int64_t>& host : options_.layout.hosts) {
        Convert(dtype, Past(call.memory[0].input, (host[place] * share + begin) * item_bytes), work,
                Past(sorted, done), count);
        done += count * work_bytes;
      }
    }
    const CollectiveMemory memory{sorted, column(chunk)};
    return Inside(call,
                  HeaderOf(CollectiveOp::kReduceScatter, op, work, Dims{ranks, hosts * count}),
                  std::span(&memory, 1), Waits::kForRanks);
  };
  stages.between = [&](int64_t chunk, Cancellation* stop) {
    const int64_t begin = chunks.Begin(chunk);
    const int64_t count = chunks.Begin(chunk + 1) - begin;
    const CollectiveMemory memory{column(chunk), result(chunk)};
    TUTTI_RETURN_IF_ERROR(
        Between(call, HeaderOf(CollectiveOp::kReduceScatter, op, work, Dims{hosts, count}),
                std::span(&memory, 1), stop));
    Finish(op, work, options_.size, count, result(chunk));
    Convert(work, result(chunk), dtype, Past(call.memory[0].output, begin * item_bytes), count);
    return OkStatus();
  };
  return RunChunks(chunks.num, std::move(stages));
}

}  // namespace tutti

#include "core/collective/communicator/nccl_fold.h"

#include <cstddef>
#include <utility>

namespace tutti {
namespace {

// Parts begin at multiples of so many elements, so that kernels take them by 16 bytes.
constexpr int64_t kPartGrain = 16;
constexpr size_t kSmallFoldBytes = 16 << 10;

}  // namespace

bool NcclFold::IsWhole(size_t i) const {
  return header_.op == CollectiveOp::kAllReduce && inputs_[i]->byte_size() <= kSmallFoldBytes;
}

NcclFold::Part NcclFold::PartOf(size_t i, int64_t rank) const {
  const int64_t all = inputs_[i]->num_elements();
  if (IsWhole(i)) return {0, all};
  if (header_.op == CollectiveOp::kReduceScatter) {
    const int64_t share = all / ranks_.size;
    return {rank * share, (rank + 1) * share};
  }
  const auto begin_of = [&](int64_t r) {
    return r == ranks_.size ? all : all / kPartGrain * r / ranks_.size * kPartGrain;
  };
  return {begin_of(rank), begin_of(rank + 1)};
}

Status NcclFold::InGroup(const std::function<Status(size_t i)>& each) const {
  TUTTI_ASSIGN_OR_RETURN(GpuGroup group, GpuGroup::Start(ranks_.nccl.place().plugin));
  Status status;
  for (size_t i = 0; i < inputs_.size() && status.ok(); ++i) status = each(i);
  Status ended = group.End(wait_);
  return status.ok() ? ended : status;
}

Status NcclFold::Send(const Tensor& tensor, Part part, int64_t to) const {
  if (to == ranks_.rank || part.count() == 0) return OkStatus();
  return ranks_.nccl.Send(ranks_.stream, tensor.dtype(), At(tensor, part.begin), part.count(),
                          static_cast<int>(to), wait_);
}

Status NcclFold::Receive(const Tensor& tensor, int64_t element, uint64_t count,
                         int64_t from) const {
  if (from == ranks_.rank || count == 0) return OkStatus();
  return ranks_.nccl.Receive(ranks_.stream, tensor.dtype(), At(tensor, element), count,
                             static_cast<int>(from), wait_);
}

Status NcclFold::HandOutInputs(size_t i) {
  const auto count = static_cast<int64_t>(PartOf(i, ranks_.rank).count());
  for (int64_t peer = 0; peer < ranks_.size; ++peer) {
    TUTTI_RETURN_IF_ERROR(Send(*inputs_[i], PartOf(i, peer), peer));
    TUTTI_RETURN_IF_ERROR(
        Receive(*brought_[i], peer * count, static_cast<uint64_t>(count), peer));
  }
  return OkStatus();
}

Status NcclFold::FoldOwnPart(size_t i) {
  const Part own = PartOf(i, ranks_.rank);
  if (own.count() == 0) return OkStatus();
  std::vector<const void*> inputs;
  for (int64_t peer = 0; peer < ranks_.size; ++peer) {
    inputs.push_back(peer == ranks_.rank
                         ? At(*inputs_[i], own.begin)
                         : At(*brought_[i], peer * static_cast<int64_t>(own.count())));
  }
  const bool is_share = header_.op == CollectiveOp::kReduceScatter;
  void* const out = folded_[i] ? folded_[i]->address() : At(*outputs_[i], is_share ? 0 : own.begin);
  return DevicePlugin::Taken(ranks_.nccl.place().api().reduce(
      ranks_.stream.raw(), static_cast<int32_t>(header_.reduction),
      static_cast<int32_t>(inputs_[i]->dtype()), inputs.data(), inputs.size(), own.count(), out));
}

Status NcclFold::HandOutFolds(size_t i) {
  if (IsWhole(i)) return OkStatus();
  const bool to_all = header_.op == CollectiveOp::kAllReduce;
  const Part own = PartOf(i, ranks_.rank);
  for (int64_t peer = 0; peer < ranks_.size; ++peer) {
    if (to_all || peer == header_.root) {
      TUTTI_RETURN_IF_ERROR(
          folded_[i] ? Send(*folded_[i], {0, static_cast<int64_t>(own.count())}, peer)
                     : Send(*outputs_[i], own, peer));
    }
    if (to_all || ranks_.rank == header_.root) {
      const Part theirs = PartOf(i, peer);
      TUTTI_RETURN_IF_ERROR(Receive(*outputs_[i], theirs.begin, theirs.count(), peer));
    }
  }
  return OkStatus();
}

Status NcclFold::Issue() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const DType dtype = inputs_[i]->dtype();
    const auto count = static_cast<int64_t>(PartOf(i, ranks_.rank).count());
    TUTTI_ASSIGN_OR_RETURN(brought_.emplace_back(), make_(Shape({ranks_.size, count}), dtype));
    Ref<Tensor>& folded = folded_.emplace_back();
    if (!outputs_[i]) {
      TUTTI_ASSIGN_OR_RETURN(folded, make_(Shape({count}), dtype));
    }
  }
  TUTTI_RETURN_IF_ERROR(InGroup([this](size_t i) { return HandOutInputs(i); }));
  for (size_t i = 0; i < inputs_.size(); ++i) TUTTI_RETURN_IF_ERROR(FoldOwnPart(i));
  if (header_.op == CollectiveOp::kReduceScatter) return OkStatus();
  return InGroup([this](size_t i) { return HandOutFolds(i); });
}

}  // namespace tutti

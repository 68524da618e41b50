// Split: the ranks of a group form smaller ones.
//
// All ranks tell each other their color and key, so that each knows the members of its group; then
// the transport brings the members together (Transport::Split). Where that takes an exchange of
// facts, the members exchange them through transfers of this group: the others take no part, and
// are not held up.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/communicator.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// Of what members tell each other: a few addresses, a table.
constexpr int64_t kMostBytes = int64_t{1} << 24;

Status SendBytes(Communicator* self, int64_t to, const std::string& bytes,
                 const CallOptions& options) {
  const auto count = static_cast<int64_t>(bytes.size());
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> size, Tensor::Create(DType::kInt64, Shape()));
  *size->mutable_span<int64_t>().data() = count;
  TUTTI_RETURN_IF_ERROR(self->Send(*size, to, options));
  if (count == 0) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> tensor, Tensor::Create(DType::kUint8, Shape({count})));
  std::memcpy(tensor->mutable_data(), bytes.data(), bytes.size());
  return self->Send(*tensor, to, options);
}

Result<std::string> ReceiveBytes(Communicator* self, int64_t from, const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> size, Tensor::Create(DType::kInt64, Shape()));
  TUTTI_RETURN_IF_ERROR(self->Receive(from, options, size.get()));
  const int64_t count = *size->span<int64_t>().data();
  if (count < 0 || count > kMostBytes) {
    return DataLoss("rank {} announces {} bytes", from, count);
  }
  if (count == 0) return std::string();
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> tensor, Tensor::Create(DType::kUint8, Shape({count})));
  TUTTI_RETURN_IF_ERROR(self->Receive(from, options, tensor.get()));
  return std::string(static_cast<const char*>(tensor->data()), static_cast<size_t>(count));
}

// Gives what all members brought, in their order. The first of them collects and hands out.
Result<std::vector<std::string>> ExchangeAmong(Communicator* self,
                                               const std::vector<int64_t>& members,
                                               std::string bytes, const CallOptions& options) {
  std::vector<std::string> all(members.size());
  if (self->rank() != members[0]) {
    TUTTI_RETURN_IF_ERROR(SendBytes(self, members[0], bytes, options));
    for (std::string& one : all) {
      TUTTI_ASSIGN_OR_RETURN(one, ReceiveBytes(self, members[0], options));
    }
    return all;
  }
  all[0] = std::move(bytes);
  for (size_t i = 1; i < members.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(all[i], ReceiveBytes(self, members[i], options));
  }
  for (size_t i = 1; i < members.size(); ++i) {
    for (const std::string& one : all) {
      TUTTI_RETURN_IF_ERROR(SendBytes(self, members[i], one, options));
    }
  }
  return all;
}

// Tells a part from all others, the same on all of its ranks: a hash (FNV-1a) of what it was split
// off from and of which split, and color, it is. Readers of JSON keep 53 bits of a number.
int64_t PartNumber(int64_t parent_group, const std::string& parent_name, const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : Format("{}/{}/{}", parent_group, parent_name, key)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return static_cast<int64_t>(hash >> 11);
}

}  // namespace

Result<Ref<Communicator>> Communicator::Split(int64_t color, int64_t key, std::string_view name,
                                              const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> own, Tensor::Create(DType::kInt64, Shape({1, 2})));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> all, Tensor::Create(DType::kInt64, Shape({size_, 2})));
  own->mutable_span<int64_t>()[0] = color;
  own->mutable_span<int64_t>()[1] = key;
  Status status = AllGatherInto(*own, options, all.get());
  if (!status.ok()) return std::move(status).WithPrefix("split");
  // Every rank that comes here has split as often.
  const int64_t number = num_splits_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (color < 0) return Ref<Communicator>();

  std::vector<std::pair<int64_t, int64_t>> keys;  // and ranks
  for (int64_t rank = 0; rank < size_; ++rank) {
    const int64_t* const told = all->span<int64_t>().data() + 2 * rank;
    if (told[0] == color) keys.emplace_back(told[1], rank);
  }
  std::sort(keys.begin(), keys.end());
  SplitRequest request;
  for (const auto& [unused, rank] : keys) {
    if (rank == rank_) request.rank = static_cast<int64_t>(request.members.size());
    request.members.push_back(rank);
  }
  request.key = Format("{}.{}", number, color);
  request.name = name.empty() ? Format("{}/{}", group_name_, request.key) : std::string(name);
  request.parent_name = group_name_;
  request.epoch = epoch_;
  // A given name is that of all colors' groups, and perhaps of those of other splits.
  const Part part{PartNumber(part_.group, group_name_, request.key), color};
  request.exchange = [this, &request](std::string_view, std::string bytes,
                                      const CallOptions& call) {
    return ExchangeAmong(this, request.members, std::move(bytes), call);
  };
  Result<std::unique_ptr<Transport>> transport = transport_->Split(request, options);
  if (!transport.ok()) {
    return transport.status().WithPrefix(
        Format("rank {}: split of communicator {}, color {}", rank_, group_name_, color));
  }
  return CreatePart(&environment(), request.name, request.rank,
                    static_cast<int64_t>(request.members.size()), epoch_, part,
                    std::move(transport).value());
}

}  // namespace tutti

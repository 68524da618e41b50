// The strings travel as one text: the size of each in eight bytes, the lowest first, then its
// bytes.
#include "core/strategy/team_strings.h"

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace tutti {
namespace {

constexpr size_t kSizeBytes = 8;

Result<std::string> PackedStrings(const Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> dense, tensor.Contiguous());
  std::string packed;
  for (const BytesView& text : dense->span<BytesView>()) {
    for (size_t i = 0; i < kSizeBytes; ++i) {
      packed.push_back(static_cast<char>(static_cast<uint64_t>(text.size) >> (8 * i)));
    }
    packed.append(static_cast<const char*>(text.data), text.size);
  }
  return packed;
}

}  // namespace

Result<Ref<Tensor>> BroadcastStrings(TeamChannel& team, const TeamLabel& label,
                                     const CallOptions& call, const Tensor& tensor) {
  std::string mine;
  if (team.worker() == 0) {
    TUTTI_ASSIGN_OR_RETURN(mine, PackedStrings(tensor));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         team.Exchange(label, OkStatus(), std::move(mine), call));
  std::string_view rest = all[0];
  std::vector<BytesView> views;
  while (rest.size() >= kSizeBytes) {
    uint64_t size = 0;
    for (size_t i = 0; i < kSizeBytes; ++i) {
      size |= static_cast<uint64_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
    }
    rest.remove_prefix(kSizeBytes);
    if (size > rest.size()) break;
    views.push_back(BytesView{rest.data(), static_cast<size_t>(size)});
    rest.remove_prefix(static_cast<size_t>(size));
  }
  if (!rest.empty() || static_cast<int64_t>(views.size()) != tensor.num_elements()) {
    return team.Abort(DataLoss("{}: worker 0 sent {} byte strings that are no tensor of shape {}",
                               label.ToString(), views.size(), tensor.shape().ToString()));
  }
  return Tensor::FromStrings(tensor.shape(), views);
}

Result<Ref<Tensor>> BroadcastOfWorker0(TeamChannel& team, const TeamLabel& label,
                                       const CallOptions& call, const Tensor& tensor) {
  std::string mine;
  for (const int64_t dim : tensor.shape().dims()) mine += Format("{} ", dim);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         team.Exchange(label, OkStatus(), std::move(mine), call));
  std::istringstream sizes(all[0]);
  std::vector<int64_t> dims;
  for (int64_t dim = 0; sizes >> dim;) dims.push_back(dim);
  const auto read = [&]() -> Result<Ref<Tensor>> {
    if (team.worker() == 0) return tensor.Copy();
    TUTTI_ASSIGN_OR_RETURN(const PartialShape partial,
                           PartialShape::Create(dims.data(), dims.size()));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, partial.ToShape());
    return Tensor::Create(tensor.dtype(), shape);
  };
  Result<Ref<Tensor>> made = read();
  if (!made.ok()) return team.Abort(std::move(made).status());
  if (tensor.dtype() == DType::kBytes) return BroadcastStrings(team, label, call, **made);
  TUTTI_RETURN_IF_ERROR(team.Broadcast(label, call, made->get()));
  return made;
}

}  // namespace tutti

// A rank whose value cannot be serialised, or is missing, must not leave the others waiting: it
// takes part with an empty text, which no value has, and all fail.
#include "core/runtime/value_collectives.h"

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/value_bytes.h"
#include "core/runtime/runtime.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

Result<std::string> Serialized(const Value* value) {
  if (value == nullptr) return InvalidArgument("a value is needed on this rank");
  return SerializeValue(*value);
}

// The texts of all ranks; `mine` of a rank that has none is its error.
Result<std::vector<std::string_view>> Gather(Communicator& communicator,
                                             const Result<std::string>& mine, const char* what,
                                             const CollectiveOptions& options, Ref<Tensor>* all) {
  const BytesView view = mine.ok() ? BytesView{mine->data(), mine->size()} : BytesView{"", 0};
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> text,
                         Tensor::FromStrings(Shape({1}), std::span<const BytesView>(&view, 1)));
  TUTTI_RETURN_IF_ERROR(communicator.AllGather(*text, 0, options, all).WithPrefix(what));
  if (!mine.ok()) return mine.status().WithPrefix(what);
  std::vector<std::string_view> texts;
  for (const BytesView& one : (*all)->span<BytesView>()) texts.push_back(one.text());
  return texts;
}

Status NoValue(const char* what, size_t rank) {
  return InvalidArgument("{}: rank {} has no value that can be sent; its own error says why", what,
                         rank)
      .With("rank", rank);
}

}  // namespace

Result<Ref<const Value>> AllGatherValue(Runtime& runtime, Communicator& communicator,
                                        const Value& value, const CollectiveOptions& options) {
  constexpr const char* kWhat = "all_gather of values";
  Ref<Tensor> all;
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<std::string_view> texts,
      Gather(communicator, Serialized(&value), kWhat, options, &all));
  const Ref<DatasetEnvironment> datasets = runtime.datasets();
  std::vector<Ref<Value>> values;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) return NoValue(kWhat, rank);
    Result<Ref<const Value>> one = ParseValue(datasets, texts[rank]);
    if (!one.ok()) return one.status().WithPrefix(Format("{}: rank {}", kWhat, rank));
    // Values are immutable, and their lists take them without const.
    values.push_back(Ref<Value>::Retain(const_cast<Value*>(one->get())));
  }
  return Ref<const Value>(Value::List(values));
}

Result<Ref<const Value>> BroadcastValue(Runtime& runtime, Communicator& communicator, int64_t root,
                                        const Value* value, const CollectiveOptions& options) {
  constexpr const char* kWhat = "broadcast of a value";
  if (root < 0 || root >= communicator.size()) {
    return InvalidArgument("{}: root is {}; expected 0 to {}", kWhat, root,
                           communicator.size() - 1);
  }
  // Byte strings are not broadcast: their number first, then they.
  const bool is_root = communicator.rank() == root;
  const Result<std::string> mine = is_root ? Serialized(value) : Result<std::string>(std::string());
  const int64_t size = mine.ok() ? static_cast<int64_t>(mine->size()) : 0;
  const Ref<Tensor> count = Tensor::Vector<int64_t>({size});
  TUTTI_RETURN_IF_ERROR(
      communicator.Broadcast(root, options, count.get()).WithPrefix(kWhat));
  if (!mine.ok()) return mine.status().WithPrefix(kWhat);
  const int64_t bytes = count->item<int64_t>();
  if (bytes == 0) return NoValue(kWhat, static_cast<size_t>(root));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> text, Tensor::Create(DType::kUint8, Shape({bytes})));
  if (is_root) std::memcpy(text->mutable_data(), mine->data(), mine->size());
  TUTTI_RETURN_IF_ERROR(communicator.Broadcast(root, options, text.get()).WithPrefix(kWhat));
  Result<Ref<const Value>> received =
      ParseValue(runtime.datasets(), {static_cast<const char*>(text->data()),
                                      static_cast<size_t>(bytes)});
  if (!received.ok()) return received.status().WithPrefix(kWhat);
  return received;
}

}  // namespace tutti

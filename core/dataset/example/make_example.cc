#include "core/dataset/example/make_example.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/example/example_column.h"
#include "core/dataset/example/example_wire.h"
#include "core/tensor/convert.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

void AppendNumber(uint64_t number, std::string* bytes) {
  for (; number >= 0x80; number >>= 7) *bytes += static_cast<char>(number | 0x80);
  *bytes += static_cast<char>(number);
}

// A field that is a message, a text or a packed list.
void AppendPart(uint32_t field, std::string_view part, std::string* bytes) {
  AppendNumber(field << 3 | static_cast<uint32_t>(WireType::kLengthDelimited), bytes);
  AppendNumber(part.size(), bytes);
  *bytes += part;
}

// The list's own fields; field 1 of each is `value`.
std::string ListOf(const Tensor& tensor, ExampleList kind) {
  std::string list;
  if (kind == ExampleList::kBytes) {
    for (const BytesView& text : tensor.span<BytesView>()) AppendPart(1, text.text(), &list);
    return list;
  }
  std::string packed;
  if (kind == ExampleList::kInt64) {
    for (const int64_t number : tensor.span<int64_t>()) {
      AppendNumber(static_cast<uint64_t>(number), &packed);
    }
  } else {
    // The machine's order of bytes is the message's.
    packed.assign(static_cast<const char*>(tensor.data()), tensor.byte_size());
  }
  if (!packed.empty()) AppendPart(1, packed, &list);
  return list;
}

Result<std::string> FeatureOf(const Value& value) {
  std::string feature;
  if (value.is_leaf() && value.leaf().kind() == LeafKind::kString) {
    std::string list;
    AppendPart(1, value.leaf().string(), &list);
    AppendPart(static_cast<uint32_t>(ExampleList::kBytes), list, &feature);
    return feature;
  }
  const Tensor* const tensor = value.AsTensor();
  const ExampleList kind =
      tensor == nullptr ? ExampleList::kNone : ExampleListOf(tensor->dtype());
  if (kind == ExampleList::kNone) {
    return InvalidArgument("expected integers, booleans, floats or byte strings, got {}",
                           value.ToString());
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense, tensor->Contiguous());
  if (kind != ExampleList::kBytes) {
    const DType to = kind == ExampleList::kInt64 ? DType::kInt64 : DType::kFloat32;
    TUTTI_ASSIGN_OR_RETURN(dense, Convert(std::move(dense), to));
  }
  AppendPart(static_cast<uint32_t>(kind), ListOf(*dense, kind), &feature);
  return feature;
}

}  // namespace

Result<std::string> MakeExample(const Value& features) {
  const NodeKind kind = features.spec().kind();
  if (kind != NodeKind::kDict && kind != NodeKind::kNamedTuple) {
    return InvalidArgument("example: the features are a dict of tensors by name, got {}",
                           features.ToString());
  }
  const TreeSpec& spec = features.spec();
  std::vector<size_t> order(spec.num_children());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return spec.key(a) < spec.key(b); });
  std::string entries;
  for (const size_t i : order) {
    Result<std::string> feature = FeatureOf(*features.Child(i));
    if (!feature.ok()) {
      return feature.status()
          .WithPrefix(Format("example: feature {}", Quote(spec.key(i))))
          .With("key", spec.key(i));
    }
    std::string entry;
    AppendPart(1, spec.key(i), &entry);
    AppendPart(2, *feature, &entry);
    AppendPart(1, entry, &entries);
  }
  std::string example;
  AppendPart(1, entries, &example);
  return example;
}

}  // namespace tutti

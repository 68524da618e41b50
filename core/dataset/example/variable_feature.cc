#include "core/dataset/example/variable_feature.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/tensor/composite.h"

namespace tutti {
namespace {

constexpr int64_t kUnknownLength = PartialShape::kUnknownDim;

std::vector<int64_t> Joined(std::span<const int64_t> outer, std::span<const int64_t> middle,
                            std::span<const int64_t> inner) {
  std::vector<int64_t> dims(outer.begin(), outer.end());
  dims.insert(dims.end(), middle.begin(), middle.end());
  dims.insert(dims.end(), inner.begin(), inner.end());
  return dims;
}

Result<Ref<Value>> SparseOf(Ref<Tensor> values, std::span<const int64_t> counts, bool is_row) {
  const int64_t axes = is_row ? 1 : 2;
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Tensor> indices,
      Tensor::Create(DType::kInt64, Shape({values->dim(0), axes}), TensorOptions()));
  int64_t* to = indices->mutable_span<int64_t>().data();
  int64_t longest = 0;
  for (size_t row = 0; row < counts.size(); ++row) {
    longest = std::max(longest, counts[row]);
    for (int64_t i = 0; i < counts[row]; ++i) {
      if (!is_row) *to++ = static_cast<int64_t>(row);
      *to++ = i;
    }
  }
  const auto rows = static_cast<int64_t>(counts.size());
  Ref<Tensor> shape = is_row ? Tensor::Vector<int64_t>({longest})
                             : Tensor::Vector<int64_t>({rows, longest});
  return MakeSparse(std::move(indices), std::move(values), std::move(shape));
}

Result<Ref<Value>> RaggedOf(const Ref<Tensor>& steps, std::span<const int64_t> counts,
                            int64_t step) {
  std::vector<int64_t> splits = {0};
  for (const int64_t count : counts) splits.push_back(splits.back() + count / step);
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Tensor> row_splits,
      Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(splits.size())}), splits));
  return MakeRagged(Value::OfTensor(steps), std::move(row_splits));
}

// As long as the longest example, with the default behind the others.
Result<Ref<Value>> PaddedOf(const ExampleFeature& feature, const Ref<Tensor>& values,
                            const Shape& outer, std::span<const int64_t> counts,
                            MemoryAccount* account) {
  const int64_t step = feature.shape.num_elements();
  const int64_t longest = counts.empty() ? 0 : *std::ranges::max_element(counts);
  const std::vector<int64_t> dims =
      Joined(outer.dims(), {{longest / step}}, feature.shape.dims());
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  const size_t size = values->item_size();
  const Tensor* const filler = feature.default_value.get();
  const bool texts = values->dtype() == DType::kBytes;
  const BytesView nothing = {"", 0};
  std::vector<BytesView> views(texts ? static_cast<size_t>(shape.num_elements()) : 0);
  Ref<Tensor> result;
  if (!texts) {
    TensorOptions options;
    options.account = account;
    TUTTI_ASSIGN_OR_RETURN(result, Tensor::Create(values->dtype(), shape, options));
  }
  char* to = texts ? reinterpret_cast<char*>(views.data())
                   : static_cast<char*>(result->mutable_data());
  const auto* from = static_cast<const char*>(values->data());
  for (const int64_t count : counts) {
    const size_t bytes = static_cast<size_t>(count) * size;
    if (bytes > 0) std::memcpy(to, from, bytes);
    from += bytes;
    to += bytes;
    for (int64_t i = count; i < longest; ++i, to += size) {
      if (filler != nullptr) {
        std::memcpy(to, filler->data(), size);
      } else if (texts) {
        std::memcpy(to, &nothing, size);
      }
    }
  }
  if (texts) {
    TUTTI_ASSIGN_OR_RETURN(result, Tensor::FromStrings(shape, views, account));
  }
  return Value::OfTensor(std::move(result));
}

}  // namespace

Result<Ref<const ElementSpec>> SpecOfFeature(const ExampleFeature& feature,
                                             const PartialShape& outer) {
  const PartialShape own(feature.shape);
  const auto tensor = [&](const PartialShape& shape) {
    return ElementSpec::OfTensor(feature.dtype, shape);
  };
  switch (feature.kind) {
    case FeatureKind::kFixed: return tensor(outer.Concatenate(own));
    case FeatureKind::kVarLen:
      return SparseSpec(feature.dtype, outer.Concatenate(PartialShape({kUnknownLength})));
    case FeatureKind::kRagged:
      if (outer.rank() > 0) {
        return RaggedSpec(feature.dtype,
                          outer.Concatenate(PartialShape({kUnknownLength})).Concatenate(own), 1);
      }
      break;
    case FeatureKind::kSequence: break;
  }
  return tensor(outer.Concatenate(PartialShape({kUnknownLength})).Concatenate(own));
}

Result<Ref<Value>> PartOfColumn(ExampleColumn* column, const Shape& outer,
                                const Ref<const Tensor>& examples, size_t payload_bytes,
                                MemoryAccount* account) {
  const ExampleFeature& feature = column->feature();
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> values, column->FinishValues(examples, payload_bytes));
  const std::vector<int64_t>& counts = column->counts();
  const bool is_row = outer.rank() == 0;
  if (feature.kind == FeatureKind::kVarLen) return SparseOf(std::move(values), counts, is_row);
  if (feature.kind == FeatureKind::kSequence) {
    return PaddedOf(feature, values, outer, counts, account);
  }
  const int64_t step = feature.shape.num_elements();
  const std::vector<int64_t> dims =
      Joined({}, {{values->num_elements() / step}}, feature.shape.dims());
  TUTTI_ASSIGN_OR_RETURN(values, values->Reshape(dims));
  if (is_row) return Value::OfTensor(std::move(values));
  return RaggedOf(values, counts, step);
}

}  // namespace tutti

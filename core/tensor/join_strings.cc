#include "core/tensor/join_strings.h"

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace tutti {

Result<Ref<Tensor>> JoinStrings(std::span<const Tensor* const> inputs, std::string_view separator) {
  if (inputs.empty()) return InvalidArgument("join: there are no inputs; give one or more");
  size_t shaped = inputs.size();  // the first that is no scalar
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    if (input.dtype() != DType::kBytes) {
      return InvalidArgument(
                 "join: input {} is {}; expected byte strings, which as_string makes of numbers", i,
                 input.SpecString())
          .With("index", i)
          .With("expected_dtype", "bytes");
    }
    if (input.rank() == 0) continue;
    if (shaped == inputs.size()) shaped = i;
    if (input.shape() == inputs[shaped]->shape()) continue;
    return InvalidArgument(
               "join: input {} has shape {}, and input {} has {}; inputs must be of one shape, or "
               "scalars",
               i, input.shape().ToString(), shaped, inputs[shaped]->shape().ToString())
        .With("index", i);
  }
  const Shape shape = shaped < inputs.size() ? inputs[shaped]->shape() : Shape();
  std::vector<std::string> texts(static_cast<size_t>(shape.num_elements()));
  std::vector<BytesView> views;
  views.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string& text = texts[i];
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (k > 0) text += separator;
      const int64_t at = inputs[k]->rank() == 0 ? 0 : static_cast<int64_t>(i);
      text += static_cast<const BytesView*>(inputs[k]->ElementAt(at))->text();
    }
    views.push_back(BytesView{text.data(), text.size()});
  }
  return Tensor::FromStrings(shape, views);
}

}  // namespace tutti

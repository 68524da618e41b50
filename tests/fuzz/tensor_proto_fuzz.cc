// Any bytes as a tensor of any dtype: a tensor or a status. What is a tensor is one again when it
// has been serialized, with the same elements and then with the same bytes.

#include <string>
#include <string_view>

#include "core/dataset/example/tensor_proto.h"
#include "core/tensor/tensor.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const auto dtype = static_cast<DType>(1 + data[0] % 16);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const Result<Ref<Tensor>> tensor = ParseTensor(*Tensor::Bytes(bytes), dtype);
  if (!tensor.ok()) return 0;
  // Many elements that repeat one are only looked at.
  if ((*tensor)->num_elements() > 100'000) return 0;
  const Ref<Tensor> serialized = SerializeTensor(**tensor).value();
  const Result<Ref<Tensor>> again = ParseTensor(*serialized, dtype);
  Require(again.ok() && (*again)->ContentsEqual(**tensor), "a tensor is the same again");
  Require(SerializeTensor(**again).value()->ContentsEqual(*serialized),
          "its bytes are the same again");
  return 0;
}

// Any bytes as the definition of an expression: a function or INVALID_ARGUMENT. What is one is the
// same again when it has been written down, and gives a value or a status for one row and for two.

#include <string>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/expression/expression_function.h"
#include "core/function/context.h"
#include "core/function/function.h"
#include "core/tensor/tensor.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  static const auto& environment = *new Ref<RealEnvironment>(MakeRef<RealEnvironment>());
  const std::string_view payload(reinterpret_cast<const char*>(data), size);
  const Result<Ref<Function>> read = ReadExpressionFunction(payload);
  if (!read.ok()) {
    Require(read.status().code() != StatusCode::kInternal, "no failure is internal");
    return 0;
  }
  Function& function = **read;
  const FunctionDefinition written = function.Define().value();
  const Result<Ref<Function>> again = ReadExpressionFunction(written.payload);
  Require(again.ok(), "a definition is read again");
  Require((*again)->Define().value().payload == written.payload, "and then written the same");

  const Ref<Tensor> rows[] = {
      Tensor::Scalar<int64_t>(5), Tensor::Vector<int64_t>({5, -7}),
      Tensor::Vector<float>({1.5f, -2.0f, 0.0f}), Tensor::Bytes("text")};
  for (const Ref<Tensor>& row : rows) {
    Context context(*environment);
    Ref<Value> out;
    const Status status = function.Call(context, *Value::OfTensor(row), &out);
    Require(status.code() != StatusCode::kInternal, "no failure is internal");
    Require(status.ok() == static_cast<bool>(out), "a value or a status");
  }
  return 0;
}

#include "core/collective/communicator/call_arguments.h"

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tensor/copy.h"
#include "core/tensor/device_buffer.h"

namespace tutti {
namespace {

// Of contiguous tensors.
bool Overlap(const Tensor& a, const Tensor& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.data());
  return a_begin < b_begin + b.byte_size() && b_begin < a_begin + a.byte_size();
}

// "float32[4,2]" of `tensor` with another number of rows.
std::string SpecWithRows(const Tensor& tensor, int64_t rows) {
  TensorSignature signature = SignatureOf(tensor);
  signature.dims[0] = rows;
  return signature.ToString();
}

}  // namespace

TensorSignature SignatureOf(const Tensor& tensor) {
  return TensorSignature{tensor.dtype(), Dims(tensor.shape().dims().data(), tensor.rank())};
}

Status CheckGiven(const Tensor* tensor, std::string_view what) {
  if (tensor != nullptr) return OkStatus();
  return InvalidArgument("the {} tensor is null", what);
}

Status CheckRoot(int64_t root, int64_t size) {
  if (root >= 0 && root < size) return OkStatus();
  return InvalidArgument("root is {}; pass a rank in [0, {})", root, size);
}

Status CheckAxis(const Tensor& tensor, size_t axis) {
  if (axis < tensor.rank()) return OkStatus();
  return InvalidArgument("axis {} of a tensor {}; pass an axis in [0, {})", axis,
                         tensor.SpecString(), tensor.rank());
}

Status CheckWritable(const Tensor& tensor, std::string_view what) {
  if (tensor.dtype() == DType::kBytes) {
    return InvalidArgument(
        "the {} is a bytes tensor, which cannot be written in place; use all_gather or gather, "
        "which make a new one",
        what);
  }
  if (tensor.read_only()) {
    return FailedPrecondition("the {} {} is read-only; give a tensor that may be written", what,
                              tensor.SpecString());
  }
  return OkStatus();
}

Status CheckSameSpec(const Tensor& input, const Tensor& output) {
  if (output.dtype() == input.dtype() && output.shape() == input.shape()) return OkStatus();
  return InvalidArgument(
      "the output is {}, the input {}; give an output of the input's dtype and shape",
      output.SpecString(), input.SpecString());
}

Status CheckEqualShares(const Tensor& whole, std::string_view what, int64_t size,
                        std::string_view otherwise) {
  if (whole.rank() == 0) {
    return InvalidArgument("the {} {} has no rows to share; give a tensor with an axis", what,
                           whole.SpecString());
  }
  const int64_t rows = whole.dim(0);
  if (rows % size == 0) return OkStatus();
  return InvalidArgument(
      "axis 0 of the {} {} is {} rows, which {} ranks cannot share equally; pad it to {} rows{}",
      what, whole.SpecString(), rows, size, (rows / size + 1) * size, otherwise);
}

Status CheckShare(const Tensor& share, const Tensor& whole, int64_t size, bool share_is_output) {
  bool fits = share.dtype() == whole.dtype() && share.rank() == whole.rank() &&
              whole.dim(0) % size == 0 && share.dim(0) == whole.dim(0) / size;
  for (size_t axis = 1; fits && axis < whole.rank(); ++axis) {
    fits = share.dim(axis) == whole.dim(axis);
  }
  if (fits) return OkStatus();
  if (share_is_output) {
    return InvalidArgument(
        "the output is {}, expected {}, one of {} equal shares of the input {}", share.SpecString(),
        SpecWithRows(whole, whole.dim(0) / size), size, whole.SpecString());
  }
  return InvalidArgument("the output is {}, expected {} for inputs {} of {} ranks",
                         whole.SpecString(), SpecWithRows(share, share.dim(0) * size),
                         share.SpecString(), size);
}

Status Stage(const Tensor* input, Tensor* output, std::optional<ptrdiff_t> in_place,
             CollectiveMemory* memory, Staging* staging) {
  if (input != nullptr) {
    TUTTI_RETURN_IF_ERROR(CheckOnHost("the input", *input));
    if (!input->is_contiguous()) {
      TUTTI_ASSIGN_OR_RETURN(staging->input, input->Contiguous());
      input = staging->input.get();
    }
    memory->input = input->data();
  }
  if (output == nullptr) return OkStatus();
  TUTTI_RETURN_IF_ERROR(CheckOnHost("the output", *output));
  bool usable = output->is_contiguous();
  if (usable && input != nullptr && Overlap(*input, *output)) {
    usable = in_place.has_value() && static_cast<const std::byte*>(output->data()) ==
                                         static_cast<const std::byte*>(input->data()) + *in_place;
  }
  if (!usable) {
    TensorOptions options;
    options.zeroed = false;
    TUTTI_ASSIGN_OR_RETURN(staging->output,
                           Tensor::Create(output->dtype(), output->shape(), options));
    output = staging->output.get();
  }
  memory->output = output->mutable_data();
  return OkStatus();
}

Status Unstage(const Staging& staging, Tensor* output) {
  return staging.output ? CopyInto(*staging.output, output) : OkStatus();
}

}  // namespace tutti

// What the communicator's calls check of their arguments, and the contiguous memory that stands for
// tensors which a transport could not use as they are. For the communicator's own files.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_ARGUMENTS_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/collective/call/transport.h"
#include "core/tensor/tensor.h"

namespace tutti {

TensorSignature SignatureOf(const Tensor& tensor);

// ---- Checks; `what` is "input" or "output" ----

Status CheckGiven(const Tensor* tensor, std::string_view what);
Status CheckRoot(int64_t root, int64_t size);
Status CheckAxis(const Tensor& tensor, size_t axis);
// May be written at its place: neither read-only nor of byte strings.
Status CheckWritable(const Tensor& tensor, std::string_view what);
Status CheckSameSpec(const Tensor& input, const Tensor& output);
// `size` ranks can have equal shares of the rows. `otherwise` goes on after "pad it to 8 rows":
// " or use all_reduce".
Status CheckEqualShares(const Tensor& whole, std::string_view what, int64_t size,
                        std::string_view otherwise);
// `share`, of rank 1 or more, is what each of `size` ranks has of `whole`. The message is about the
// output, which is one of both.
Status CheckShare(const Tensor& share, const Tensor& whole, int64_t size, bool share_is_output);

// ---- Memory ----

// Lives as long as the call.
struct Staging {
  Ref<Tensor> input;   // a contiguous copy of a strided input
  Ref<Tensor> output;  // what is copied into a strided or half-overlapping output afterwards
};

// Fills `memory`, with staging where the transport could not use the tensors' own. Either may be
// null. They may overlap in one way only, or in none: the output's memory begins `in_place` bytes
// behind the input's.
Status Stage(const Tensor* input, Tensor* output, std::optional<ptrdiff_t> in_place,
             CollectiveMemory* memory, Staging* staging);
// After the call.
Status Unstage(const Staging& staging, Tensor* output);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_ARGUMENTS_H_

// KnownCalls: the all_reduces that a rank has made before. Programs sum tensors of the same few
// shapes again and again; a call that is like an earlier one has the same header, which then need
// be neither checked nor made, and the transport knows the call by its number
// (CollectiveCall::known_as).
//
// Of the call that has the rank's turn; for the communicator's own files.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_KNOWN_CALLS_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_KNOWN_CALLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/recorder.h"
#include "core/collective/call/transport.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class KnownCalls {
 public:
  struct Entry {
    // Sequence, options and memory are those of the last one.
    CollectiveCall call;
    CollectiveMemory memory;
    int64_t bytes = 0;
    FlightArguments begin_record = {};  // but for the sequence
  };

  // What fits a call of one tensor, which needs no more checks and no staging; null: nothing does.
  Entry* Find(const Tensor& input, ReduceOp op, const Tensor& output) const noexcept {
    Entry* const entry = places_[PlaceOf(input, op)].get();
    return entry != nullptr && Fits(*entry, input, op, output) ? entry : nullptr;
  }
  // After a call with such an input and operation, `header`, has succeeded.
  void Learn(int64_t subject, const Tensor& input, const CallHeader& header);

 private:
  static size_t PlaceOf(const Tensor& input, ReduceOp op) noexcept {
    const uint64_t mixed = (static_cast<uint64_t>(input.num_elements()) * 31 +
                            static_cast<uint64_t>(input.dtype())) * 31 + static_cast<uint64_t>(op);
    return (mixed * 0x9e3779b97f4a7c15 >> 32) % kKnownCallPlaces;
  }
  static bool HasDims(const Tensor& tensor, const Dims& dims) noexcept {
    if (tensor.rank() != dims.size()) return false;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (tensor.dim(axis) != dims[axis]) return false;
    }
    return true;
  }
  static bool Fits(const Entry& entry, const Tensor& input, ReduceOp op,
                   const Tensor& output) noexcept {
    const CallHeader& header = entry.call.header;
    const DType dtype = header.first.dtype;
    if (header.reduction != op || input.dtype() != dtype || output.dtype() != dtype) return false;
    if (!input.is_contiguous() || !output.is_contiguous() || output.read_only()) return false;
    if (!HasDims(input, header.first.dims) || !HasDims(output, header.first.dims)) return false;
    const auto from = reinterpret_cast<uintptr_t>(input.data());
    const auto to = reinterpret_cast<uintptr_t>(output.data());
    const auto bytes = static_cast<uintptr_t>(entry.bytes);
    return from == to || from + bytes <= to || to + bytes <= from;
  }

  std::array<std::unique_ptr<Entry>, kKnownCallPlaces> places_;
  uint64_t learnt_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_KNOWN_CALLS_H_

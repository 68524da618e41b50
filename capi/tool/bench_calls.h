// The calls of one rank of `tutti bench` over one communicator: tensors of a size, what they hold
// before, the call itself, at once or waited for, and how many elements are wrong afterwards.

#ifndef TUTTI_CAPI_TOOL_BENCH_CALLS_H_
#define TUTTI_CAPI_TOOL_BENCH_CALLS_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <vector>

#include "capi/tool/bench_collectives.h"
#include "capi/tool/bench_pattern.h"
#include "capi/tool/c_handles.h"

namespace tutti::tool {

// Puts what all ranks' numbers fold to in place of this rank's.
CStatus FoldNumber(tutti_runtime* runtime, tutti_communicator* communicator, tutti_dtype dtype,
                   tutti_reduce_op op, void* number);

class BenchCalls {
 public:
  struct Subject {
    const BenchCollective* collective = nullptr;
    tutti_dtype dtype = TUTTI_DTYPE_FLOAT32;
    tutti_reduce_op op = TUTTI_REDUCE_SUM;
    int64_t tensors = 1;  // that one call takes
    bool mapped = false;  // tensors are the communicator's, in memory that the other ranks map
  };
  // Elements of a call.
  struct Counts {
    int64_t whole = 0;  // all tensors of the call together
    int64_t share = 0;  // or unit
  };
  // The tensors of one call.
  struct TensorSet {
    std::vector<CTensor> inputs, outputs;
    std::vector<CTensor> parts;  // in place: the smaller side, a view of the larger one
    CTensor made;
    std::vector<int64_t> rows;  // of an uneven exchange: how many elements go to each rank
    std::vector<const tutti_tensor*> call_inputs;
    std::vector<tutti_tensor*> call_outputs;
  };

  BenchCalls(const Subject& subject, tutti_runtime* runtime, tutti_communicator* communicator);
  // Before anything else.
  CStatus Begin();

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  const BenchCollective& collective() const { return collective_; }

  // At least an element for each rank, and each tensor.
  Counts CountsOf(int64_t bytes) const;
  int64_t BytesOf(const Counts& counts) const;
  // So many sets that the last level of cache cannot hold them all.
  size_t NumSets(const Counts& counts) const;

  CStatus MakeSet(const Counts& counts, bool in_place, TensorSet* set) const;
  // What the rank brings, and rubbish where the result goes.
  CStatus Fill(const Counts& counts, TensorSet* set) const;
  // Each line of them, with what it holds.
  CStatus WriteInputsAnew(TensorSet* set) const;
  // Each line of the outputs that the caller gave.
  CStatus ReadOutputs(const TensorSet& set) const;
  CStatus Call(TensorSet* set) const;
  // The same at once, and its end; the set is the call's in between.
  CStatus Start(TensorSet* set, CFuture* future) const;
  CStatus Complete(const CFuture& future, TensorSet* set) const;
  int64_t CountWrong(const Counts& counts, const TensorSet& set) const;
  // Whether the tensors lie in memory that other processes can map. This rank's alone.
  static bool IsMapped(const std::vector<TensorSet>& sets);

  // ---- What the ranks tell each other ----
  CStatus Barrier() const;
  CStatus AgreeOnNumberOfRank0(int64_t* number) const;
  CStatus Fold(tutti_dtype dtype, tutti_reduce_op op, void* number) const;

 private:
  int64_t ElementsOf(BenchPart part, const Counts& counts) const;
  CStatus Create(int64_t elements, CTensor* tensor) const;
  BenchPlace PlaceOf(const Counts& counts) const;
  BenchCall CallOf(TensorSet* set) const;

  const BenchCollective& collective_;
  const tutti_dtype dtype_;
  const tutti_reduce_op op_;
  const int64_t tensors_;
  const bool mapped_;
  tutti_runtime* const runtime_;
  tutti_communicator* const communicator_;
  const int64_t rank_;
  const int64_t size_;
  const size_t item_;
  BenchPattern pattern_;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_CALLS_H_

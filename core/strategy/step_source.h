// StepSource: where one input pipeline of a distributed iterator takes its elements from: an
// iterator, or, behind a joint position that another number of workers saved, several of them: the
// parts of the data that those workers had, each from where they had come to.
//
// Parts give an element each in turn, until all have ended. A part that several workers share is
// read by each of them, and each keeps every `stride`-th element of it. A failed element has its
// place among the others: it is the failure of the worker that would have kept it.
//
// One thread at a time, but for Close.

#ifndef TUTTI_CORE_STRATEGY_STEP_SOURCE_H_
#define TUTTI_CORE_STRATEGY_STEP_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/tensor/value.h"

namespace tutti {

// Whose part of the data it was.
struct PartOrigin {
  AutoShardPolicy policy = AutoShardPolicy::kOff;
  int64_t num_workers = 1;
  int64_t worker = 0;
  int64_t num_replicas = 1;  // of each worker
};

// Where a part is left off, as positions have it.
struct SourcePart {
  PartOrigin origin;
  Ref<Iterator> iterator;
  int64_t before = 0;  // elements to pass over before the next one that is kept
  int64_t stride = 1;
  bool ended = false;
};

class StepSource {
 public:
  // All that `iterator` gives.
  explicit StepSource(Ref<Iterator> iterator) { parts_.push_back({{}, std::move(iterator)}); }
  // The first to be asked is number `turn`.
  StepSource(std::vector<SourcePart> parts, size_t turn)
      : parts_(std::move(parts)), turn_(turn), is_dealt_(true) {}

  // Null at the end. Interruptions (deadline, cancellation) lose nothing.
  Result<Ref<Value>> Next(const CallOptions& call);
  // The first failure of its iterators.
  Status Close(const CallOptions& call) const;

  // Made of a joint position.
  bool is_dealt() const { return is_dealt_; }
  const std::vector<SourcePart>& parts() const { return parts_; }
  size_t turn() const { return turn_; }
  // Of one that is not dealt.
  Iterator& iterator() const { return *parts_[0].iterator; }
  bool has_ended() const { return parts_[0].ended; }
  // It has been restored.
  void GoesOn() { parts_[0].ended = false; }

 private:
  // Passes over what others keep.
  Status PassOver(SourcePart* part, const CallOptions& call) const;

  std::vector<SourcePart> parts_;
  size_t turn_ = 0;
  bool is_dealt_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STEP_SOURCE_H_

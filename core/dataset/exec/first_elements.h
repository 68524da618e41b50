// What only an element can tell: the spec of a map without an output spec, or what kind of datasets
// a function gives. Elements are looked at in order until one has told it.
//
// An element that fails keeps its place in the dataset, and decides nothing: the next one is looked
// at, until kMostFailedLooks have failed. That is a bound for datasets without end.
//
// Looking leaves no trace: the stages are of a context with `probe`, which draw no numbers, start
// no threads and write no files.
#ifndef TUTTI_CORE_DATASET_EXEC_FIRST_ELEMENTS_H_
#define TUTTI_CORE_DATASET_EXEC_FIRST_ELEMENTS_H_

#include <cstdint>
#include <functional>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/tensor/value.h"

namespace tutti {

inline constexpr int64_t kMostFailedLooks = 100;

struct FirstLook {
  bool told = false;
  int64_t failed = 0;  // elements that were to tell it, and failed
  Status failure;      // of the first of them
};

// Elements of `stage` until `look` is OK for one. Fails only where the call was interrupted.
Result<FirstLook> LookAtElements(Stage* stage, const CallOptions& options,
                                 const std::function<Status(const Ref<Value>&)>& look);

// The same of the datasets that the function of `node`, whose op has `look_at_dataset`, gives for
// the elements of its input.
Result<FirstLook> LookAtDatasets(const Node& node, const ExecContext& context,
                                 const CallOptions& options,
                                 const std::function<Status(const Dataset&)>& look);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_FIRST_ELEMENTS_H_

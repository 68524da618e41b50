// What a function has refused, for an operation above it that keeps such elements: a failure takes
// the element along, as the detail "refused", while somebody wants it.
#ifndef TUTTI_CORE_DATASET_EXEC_REFUSED_H_
#define TUTTI_CORE_DATASET_EXEC_REFUSED_H_

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/value.h"

namespace tutti {

// While one lives, failures take elements along. Threads: any.
class KeepsRefused {
 public:
  KeepsRefused();
  ~KeepsRefused();
  KeepsRefused(const KeepsRefused&) = delete;
  KeepsRefused& operator=(const KeepsRefused&) = delete;
};

// `status`, with the element where somebody keeps it and it can be written down.
Status WithRefused(const Status& status, const Value& element);

// The element, or null; and the status without it.
Ref<Value> RefusedElement(const Status& status);
Status WithoutRefused(Status status);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_REFUSED_H_

// What a stage says whose thread was ended by an exception: nobody knows where its input stands.
#ifndef TUTTI_CORE_DATASET_EXEC_BROKEN_INPUT_H_
#define TUTTI_CORE_DATASET_EXEC_BROKEN_INPUT_H_

#include <utility>

#include "core/base/exception.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"

namespace tutti {

// `thrown`, marked: it has taken along all elements that were to come. Throws nothing; what cannot
// be marked for lack of memory comes back as it is.
inline Status BrokenInput(Status thrown) {
  Status marked = thrown;
  const Status out_of_memory = CatchExceptions("", [&] {
    marked = WithLoss(std::move(marked), Loss::kMany);
    return OkStatus();
  });
  return out_of_memory.ok() ? std::move(marked) : std::move(thrown);
}

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_BROKEN_INPUT_H_

// Datasets that hold rows which have been read: what stands in windows' elements, and what
// group_by_window hands to its function.
#ifndef TUTTI_CORE_DATASET_OPS_DATASET_OF_ROWS_H_
#define TUTTI_CORE_DATASET_OPS_DATASET_OF_ROWS_H_

#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"

namespace tutti {

class Dataset;
class DatasetEnvironment;
class MemoryAccount;

// A dataset of all rows of all parts, of which there is at least one, whose elements are one row
// each: a source of its own, which needs nobody. Rows that are tensors of one shape, component by
// component, are those of from_tensor_slices, a view of them where they lie in one piece; others
// are those of from_elements.
Result<Ref<Dataset>> DatasetOfRows(const Ref<DatasetEnvironment>& environment,
                                   std::span<const Slab> parts, MemoryAccount* account);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_DATASET_OF_ROWS_H_

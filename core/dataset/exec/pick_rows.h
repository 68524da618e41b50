// Picking rows: what filter and unique make their elements with.
#ifndef TUTTI_CORE_DATASET_EXEC_PICK_ROWS_H_
#define TUTTI_CORE_DATASET_EXEC_PICK_ROWS_H_

#include <cstdint>
#include <span>

#include "core/base/status.h"
#include "core/dataset/exec/slab.h"

namespace tutti {

class MemoryAccount;

// The rows of `in` at `rows`, ascending and at least one, without status and end. Neighbours stay
// where they are, as views; others are gathered.
Result<Slab> PickRows(const Slab& in, std::span<const int64_t> rows, MemoryAccount* account);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_PICK_ROWS_H_

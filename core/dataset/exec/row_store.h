// RowStore: rows in numbered slots, which a shuffle takes out and fills again. Numeric rows of one
// shape lie column by column in one block of memory each, so that the store takes exactly what its
// rows take and pins no slab; other rows are leaves of their own. Rows that lie in memory of the
// dataset's anyway (Column::Borrowed) stay there: the block has where.
#ifndef TUTTI_CORE_DATASET_EXEC_ROW_STORE_H_
#define TUTTI_CORE_DATASET_EXEC_ROW_STORE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/tensor/buffer.h"

namespace tutti {

class MemoryAccount;

class RowStore {
 public:
  explicit RowStore(MemoryAccount* account) : account_(account) {}

  // There are at least `slots` slots, empty so far.
  void Begin(int64_t slots) { slots_ = slots; }
  // All rows of `rows` into the slots [first, first + rows.rows).
  Status Append(const Slab& rows, int64_t first);

  // For each k: row k of the result is what slot slots[k] holds, and then, as long as `refill` has
  // rows, its row k takes the slot's place. One slot may come several times. Columns are made in
  // *out unless it is null.
  Status Exchange(std::span<const int64_t> slots, const Slab& refill, Slab* out);

  void Clear();

 private:
  struct StoredColumn {
    bool dense = false;
    // Of a dense one, whose rows stay in this memory: slot i of the block is a const char*.
    Ref<const RefCounted> owner;
    DType dtype = DType::kInvalid;
    Shape row_shape;
    size_t row_bytes = 0;
    Ref<Buffer> block;         // dense: slot i lies at i * slot_bytes()
    std::vector<Leaf> leaves;  // not dense: by slot

    size_t slot_bytes() const { return owner ? sizeof(const char*) : row_bytes; }
  };

  void ChooseColumns(const Slab& rows);
  bool Fits(const StoredColumn& stored, const Column& column) const;
  Status MakeOwned(StoredColumn* stored, int64_t slots);
  Status MakeSparse(StoredColumn* stored, int64_t slots);
  Status Reserve(StoredColumn* stored, int64_t slots);
  Status Accept(const Slab& rows, int64_t slots);

  MemoryAccount* const account_;
  Ref<const TreeSpec> tree_;
  std::vector<StoredColumn> columns_;
  std::vector<Origin> origins_;  // by slot, once one is known
  int64_t slots_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_ROW_STORE_H_

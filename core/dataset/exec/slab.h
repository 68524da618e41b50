// Slab: a piece of a dataset's sequence on its way through the ops: up to some thousand rows, a row
// being one element, one column per leaf of the element.
//
// A column is dense, one contiguous tensor [rows, ...], or, when rows differ in shape, come from
// different places, or are no tensors, one leaf per row. Byte strings are a dense column of
// BytesView, whose payload the tensor keeps alive.
//
// What comes instead of the row after the last one stands in `status` or `end`:
//
//   rows > 0, status ok, !end     more may come
//   rows >= 0, status failed      after the rows, one element could not be made; go on asking
//   rows >= 0, end                after the rows there is nothing
//
// A failure may be more than one element's: a file that cannot be opened, or whose rest cannot be
// found, takes all its elements with it. Such a status is marked (WithLoss), and nobody who passes
// over other elements' failures passes over it.
//
// Rows of a slab are shared with views and must not be written once they are handed on.
#ifndef TUTTI_CORE_DATASET_EXEC_SLAB_H_
#define TUTTI_CORE_DATASET_EXEC_SLAB_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/origins.h"
#include "core/tensor/leaf.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tree_spec.h"
#include "core/tensor/value.h"

namespace tutti {

// What one call makes at most, however much it is asked for.
inline constexpr int64_t kMaxSlabRows = 4096;

class Column {
 public:
  Column() = default;
  // `rows` is contiguous, of rank >= 1.
  static Column Dense(Ref<Tensor> rows);
  // Memory that lives as long as the dataset does, so that a view of it pins nothing.
  static Column Borrowed(Ref<Tensor> rows);
  static Column Rows(std::vector<Leaf> rows);

  bool is_dense() const { return static_cast<bool>(dense_); }
  bool is_borrowed() const { return borrowed_; }
  // Of a dense column.
  const Ref<Tensor>& dense() const { return dense_; }
  // Of a column that is not dense.
  const std::vector<Leaf>& leaves() const { return rows_; }
  std::vector<Leaf>& mutable_leaves() { return rows_; }

  int64_t rows() const { return dense_ ? dense_->dim(0) : static_cast<int64_t>(rows_.size()); }
  // One row as a leaf; of a dense column a view.
  Leaf Row(int64_t i) const;
  // Rows [begin, end): views.
  Column Slice(int64_t begin, int64_t end) const;
  // The dense form, copied when the column is not dense already. INVALID_ARGUMENT naming two rows
  // whose dtypes or shapes differ ("element 1 has shape [2], element 0 has [3]"), or a leaf that is
  // no tensor.
  Result<Ref<Tensor>> ToDense(MemoryAccount* account) const;

 private:
  Ref<Tensor> dense_;
  bool borrowed_ = false;
  std::vector<Leaf> rows_;
};

struct Slab {
  int64_t rows = 0;
  Ref<const TreeSpec> tree;     // the structure of a row; set whenever there are columns
  std::vector<Column> columns;  // empty when only the count was asked for
  Origins origins;              // of the rows, as far as they are known
  Status status;
  bool end = false;

  // Back to the state of a new slab.
  void Clear();
  // One row as a value. A view that would keep more than four times its own size alive is copied.
  Result<Ref<Value>> Row(int64_t i) const;
  // Rows [begin, end) without status and end.
  Slab Slice(int64_t begin, int64_t end) const;
};

// Values of one structure as the rows of a slab; of none, an empty slab.
Slab SlabOfValues(std::span<const Ref<Value>> values);

// What a failure stands for.
enum class Loss : uint8_t {
  kElement,
  kPerhapsRest,  // the rest of the source, if its end follows: a generator that raised is over
  kMany,         // an unknown number of elements
};
Status WithLoss(Status status, Loss loss);
Loss LossOf(const Status& status);

// As a horizon: no number is known that will do.
inline constexpr int64_t kNoHorizon = std::numeric_limits<int64_t>::max();

// How much is wanted.
struct Demand {
  int64_t max_rows = 1;
  // The rows are passed over: they count, but columns may be missing, or be what they please, and
  // user functions whose results decide nothing are not called.
  bool count_only = false;
  // How many rows of this pass can be wanted from here on, those of this call among them; less than
  // max_rows stands for max_rows. So far a stage may run ahead that does (a parallel map, prefetch)
  // until it is called again. A take lowers it; what cannot know says kNoHorizon.
  int64_t horizon = 0;
  // No row from here on is passed over, until the stage is restarted or restored.
  bool all_wanted = false;
  // The rows are made ahead, and may be passed over instead. A failure that counting would not meet
  // does not come now: its element stays where it is, and the call is interrupted (Undecided).
  bool tentative = false;

  int64_t Horizon() const { return std::max(max_rows, horizon); }
  // Of an input whose rows are passed over where these are.
  Demand OfInput(int64_t rows, int64_t input_horizon) const {
    return {rows, count_only, input_horizon, all_wanted, tentative};
  }
  // Of an input whose rows are made even where these are passed over.
  static Demand Made(int64_t rows, int64_t horizon) { return {rows, false, horizon, true, false}; }
};

// Of horizons; kNoHorizon stays what it is, and stands for all that is too large.
int64_t HorizonPlus(int64_t horizon, int64_t rows);
int64_t HorizonTimes(int64_t horizon, int64_t factor);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_SLAB_H_

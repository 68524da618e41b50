// PredicateRows: a user function that gives a boolean scalar for each row, as filter and take_while
// ask it.
#ifndef TUTTI_CORE_DATASET_OPS_PREDICATE_ROWS_H_
#define TUTTI_CORE_DATASET_OPS_PREDICATE_ROWS_H_

#include <cstdint>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"

namespace tutti {

// INVALID_ARGUMENT unless the node has one function, which gives a boolean scalar as far as that is
// known.
Status CheckPredicate(const Node& node);

class PredicateRows {
 public:
  PredicateRows(const Node& node, const ExecContext& context);

  // As FunctionRows::NameFilesOf.
  void NameFilesOf(const Stage& input) { function_.NameFilesOf(input); }

  // What the predicate says about the first rows of a slab, one flag per row judged. A failed
  // status stands behind them: it is about the next row, which is used up, too, or an interruption,
  // which uses up none.
  struct Verdicts {
    std::vector<char> flags;
    int64_t used = 0;  // rows that need not come again
    Status status;
  };
  // `index` is the first row's, for messages. With `until_false` rows behind the first false one
  // may be left unjudged.
  Verdicts Judge(const Slab& rows, int64_t index, bool until_false, const CallOptions& options);

 private:
  void JudgeRows(const Slab& rows, int64_t index, bool until_false, const CallOptions& options,
                 Verdicts* verdicts);
  void JudgeSlab(const Slab& rows, int64_t index, const CallOptions& options, Verdicts* verdicts);

  FunctionRows function_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_PREDICATE_ROWS_H_

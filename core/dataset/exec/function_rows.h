// FunctionRows: a user function applied to the rows of slabs, by row or by slab as the function
// wants it, with the errors that name node and element.
#ifndef TUTTI_CORE_DATASET_EXEC_FUNCTION_ROWS_H_
#define TUTTI_CORE_DATASET_EXEC_FUNCTION_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/function/function.h"
#include "core/tensor/element_spec.h"

namespace tutti {

// `status` as the failure of element `index` of the op `label`. Who gave up by themselves, and not
// because their call was to end, failed for their element: ABORTED.
Status FailureOfElement(const Status& status, std::string_view label, int64_t index,
                        const CallOptions& options, const Clock& clock,
                        const Origin& origin = {});

// Which function of a node is called, and what for.
struct FunctionUse {
  size_t function = 0;
  // What messages call that which it is given; null: "element 7".
  std::string (*name)(const Value& argument) = nullptr;
};

class FunctionRows {
 public:
  // `spec` is what the results are converted to and must fit; null: what the first result has,
  // shapes aside, whose integers later ones are converted to.
  FunctionRows(const Node& node, const ExecContext& context, Ref<const ElementSpec> spec,
               FunctionUse use = {});

  bool takes_slabs() const { return function_.takes_slabs(); }

  // The result for one row. `index` is the element's, for messages. Threads: any, several at once.
  Result<Ref<Value>> CallRow(const Slab& rows, int64_t row, int64_t index,
                             const CallOptions& options);
  Result<Ref<Value>> CallValue(const Value& element, int64_t index, const CallOptions& options,
                               const Origin& origin = {});
  // The results for all rows of a slab. When the function says which row failed (the detail "row"),
  // *failed_row is that.
  Result<Slab> CallSlab(const Slab& rows, int64_t index, const CallOptions& options,
                        std::optional<int64_t>* failed_row);
  // The results for the first rows of a slab, for all where none fails; *used says for how many, or
  // how many have failed. An interruption uses up none.
  Result<Slab> CallFirstRows(const Slab& rows, int64_t index, const CallOptions& options,
                             int64_t* used);

  // Rows from values of one structure.
  Slab Collect(std::vector<Ref<Value>> values) const;

  // The spec of the first result, once there is one.
  const Ref<const ElementSpec>& learnt_spec() const { return learnt_; }
  // The result as an element of the spec. Of results in order; not from several threads.
  Result<Ref<Value>> Fit(Ref<Value> result, int64_t index, const Origin& origin = {});
  // `status` as the failure of element `index`.
  Status Fail(const Status& status, int64_t index, const CallOptions& options,
              const Origin& origin = {}) const;
  // The same of what the function was given.
  Status FailOf(const Value& argument, const Status& status, int64_t index,
                const CallOptions& options, const Origin& origin = {}) const;

 private:
  Status Call(Context& context, const Value& in, int64_t rows, Ref<Value>* out);
  Result<Ref<Value>> FitSlab(Ref<Value> result, int64_t rows);

  const Node& node_;
  const FunctionUse use_;
  Function& function_;
  Environment& environment_;
  MemoryAccount* const account_;
  NodeProfile* const record_;  // null: nothing is measured
  const Ref<const ElementSpec> spec_;
  Ref<const ElementSpec> learnt_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_FUNCTION_ROWS_H_

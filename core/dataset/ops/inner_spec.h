// InnerSpec: what the elements of the datasets are that a node's function gives, and whether those
// of one dataset are what the others' are: structure, kinds and dtypes are the same throughout,
// shapes only where the function promises them.
#ifndef TUTTI_CORE_DATASET_OPS_INNER_SPEC_H_
#define TUTTI_CORE_DATASET_OPS_INNER_SPEC_H_

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/graph/node.h"
#include "core/tensor/element_spec.h"

namespace tutti {

class Dataset;

// The spec of the elements of the datasets that the node's first function promises; null where it
// promises none.
Result<Ref<const ElementSpec>> PromisedInnerSpec(const Node& node);

// INVALID_ARGUMENT unless the node has one function, which gives a dataset as far as that is known.
Status CheckGivesDatasets(const Node& node);

// Of any function of the node's, for what `input` describes (null: it is not known).
Result<Ref<const ElementSpec>> PromisedInnerSpec(const Node& node, size_t function,
                                                 const ElementSpec* input);

class InnerSpec {
 public:
  explicit InnerSpec(const Node& node);
  // `promised`: what a function that is not the first one promises; null: nothing.
  InnerSpec(const Node& node, Ref<const ElementSpec> promised);

  // INVALID_ARGUMENT for a dataset whose elements are others than those before. *known tells
  // whether all its elements are known to be right.
  Status CheckDataset(const Dataset& dataset, bool* known);
  // The first row that is another than those before, with the *status for it; slab.rows when there
  // is none.
  int64_t CheckRows(const Slab& slab, Status* status);

 private:
  Status Fail(const Status& status) const;
  void Learn(const Ref<const ElementSpec>& spec);

  const Node& node_;
  Ref<const ElementSpec> expected_;  // null before the first
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_INNER_SPEC_H_

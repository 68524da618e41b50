// Dataset::FromVariant: a value of one dataset leaf says nothing of the elements that its receiver
// relies on, so that they are compared here, before anything is built on them.

#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

namespace tutti {

Result<Ref<Dataset>> Dataset::FromVariant(const Value& variant, const ElementSpec& element_spec,
                                          const CallOptions& call) {
  if (!variant.is_leaf() || variant.leaf().kind() != LeafKind::kDataset) {
    return InvalidArgument("from_variant: expected a dataset as a value, found {}; make one with "
                           "to_variant",
                           ElementSpec::OfValue(variant)->ToString());
  }
  Ptr dataset = Ptr::Retain(variant.leaf().object_as<Dataset>());
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> found, dataset->GetElementSpec(call));
  if (!element_spec.IsCompatibleWith(*found)) {
    return InvalidArgument(
        "from_variant: expected a dataset of {}, found one of {}; give the structure that the "
        "dataset has (its element_spec)",
        element_spec.ToString(), found->ToString());
  }
  return dataset;
}

}  // namespace tutti

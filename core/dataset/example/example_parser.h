// Parses serialised tf.train.Example messages straight into columns, one per feature:
//
//   message Example { Features features = 1; }
//   message Features { map<string, Feature> feature = 1; }
//   message Feature {
//     oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }
//   }
//   message BytesList { repeated bytes value = 1; }
//   message FloatList { repeated float value = 1 [packed = true]; }
//   message Int64List { repeated int64 value = 1 [packed = true]; }
//
// No message object is built: the wire format is walked once per example, and values are decoded to
// where they belong. As protobuf has it, unknown fields are passed over, repeated fields may be
// packed or not, and of several entries with one key the last one counts.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_PARSER_H_
#define TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_PARSER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tree_spec.h"
#include "core/tensor/value.h"

namespace tutti {

class MemoryAccount;

// How many values of a feature an example has, and what they become.
enum class FeatureKind : int32_t {
  kFixed = 0,     // as many as its shape has elements: a tensor
  kSequence = 1,  // any number of steps of that shape: a tensor as long as the longest example's
  kVarLen = 2,    // any number of scalars: a sparse tensor
  kRagged = 3,    // any number of steps of that shape: a ragged tensor, of one example a tensor
};

// An example without a feature that is not kFixed has no values of it.
struct ExampleFeature {
  std::string key;
  // bytes is read from bytes_list; float16, bfloat16, float32 and float64 from float_list; bool and
  // the integers from int64_list. A value that the dtype cannot hold is an error.
  DType dtype = DType::kInvalid;
  Shape shape;
  // Converted to this dtype. kFixed: of this shape, what stands for a feature that an example does
  // not have; null: every example must have it. kSequence: a scalar, behind the values of examples
  // that are shorter than the longest; null is 0, false or "". Others have none.
  Ref<const Tensor> default_value;
  FeatureKind kind = FeatureKind::kFixed;
};

// Threads: any.
class ExampleParser {
 public:
  // INVALID_ARGUMENT for no features, a key that is empty or comes twice, a dtype that no list
  // holds, a default of another shape or with what the dtype does not hold, steps of no values, and
  // a shape or a default for a kind that has none.
  static Result<std::unique_ptr<const ExampleParser>> Create(std::vector<ExampleFeature> features);

  // A dict of the features, each of the shape of `examples` (bytes; any shape, and a scalar or a
  // vector where a feature's values are sparse or ragged) followed by its own. Byte strings may be
  // views into the examples' payload, which they then keep alive.
  //
  // INVALID_ARGUMENT for the first example that does not fit: with the details "row" (its position
  // along axis 0, unless `examples` is a scalar), "feature", and for malformed bytes "offset".
  // Memory is charged to `account` (may be null).
  Result<Ref<Value>> Parse(const Ref<const Tensor>& examples, MemoryAccount* account) const;

  // In byte order of their keys, as the children of the dict.
  const std::vector<ExampleFeature>& features() const { return features_; }
  // Whether all are kFixed. Then what Parse gives has one leaf each, and `tree` is its structure.
  bool is_fixed() const { return tree_ != nullptr; }
  const Ref<const TreeSpec>& tree() const { return tree_; }
  // What Parse gives for examples of this shape; null where that depends on what is not known of
  // it. INVALID_ARGUMENT for a shape that it does not take.
  Result<Ref<const ElementSpec>> OutputSpec(const PartialShape& outer) const;

 private:
  ExampleParser(std::vector<ExampleFeature> features, Ref<const TreeSpec> tree);

  Status CheckRank(size_t rank) const;

  const std::vector<ExampleFeature> features_;
  const Ref<const TreeSpec> tree_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_PARSER_H_

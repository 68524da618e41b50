// Values, specs and structures to and from their messages (proto/tutti/v1/dataset.proto).
#ifndef TUTTI_CORE_DATASET_GRAPH_VALUE_PROTO_H_
#define TUTTI_CORE_DATASET_GRAPH_VALUE_PROTO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/tree_spec.h"
#include "core/tensor/value.h"

namespace tutti {

class Dataset;
class DatasetEnvironment;

namespace v1 {
class SpecDef;
class TreeDef;
class ValueDef;
}  // namespace v1

// The datasets in the values of one definition. Each is looked at once, however often it stands
// there: datasets in datasets would double what is written with every level.
struct WrittenDatasets {
  std::unordered_map<const Dataset*, int32_t> numbers;  // from 1 on
  std::unordered_map<const Dataset*, std::string> fingerprints;
};

// Whether what Write* makes of it can be read again: FAILED_PRECONDITION for structures that are
// nested deeper than 32 levels, those of optionals' values, of values of datasets in it, and of
// specs counted from outside.
Status CheckLevels(const TreeSpec& tree);
Status CheckLevels(const ElementSpec& spec);
Status CheckLevels(const Value& value);

void WriteTree(const TreeSpec& tree, v1::TreeDef* def);
Result<Ref<const TreeSpec>> ReadTree(const v1::TreeDef& def, int depth = 0);

void WriteSpec(const ElementSpec& spec, v1::SpecDef* def);
Result<Ref<const ElementSpec>> ReadSpec(const v1::SpecDef& def, int depth = 0);

// FAILED_PRECONDITION for leaves that live in this process only. With `digest` a tensor's contents
// are replaced by their SHA-256, and a dataset is its fingerprint: for fingerprints. Otherwise a
// dataset is its definition, or where that stands in `written` already.
Status WriteValue(const Value& value, bool digest, WrittenDatasets* written, v1::ValueDef* def);
// `depth` levels of values and definitions stand around it. `read`: the datasets of the definition
// that came before.
Result<Ref<const Value>> ReadValue(const v1::ValueDef& def,
                                   const Ref<DatasetEnvironment>& environment, int depth,
                                   std::vector<Ref<Dataset>>* read);

// Dataset::Deserialize of what stands in the value of another definition (graph_proto.cc).
Result<Ref<Dataset>> ReadDefinition(const Ref<DatasetEnvironment>& environment,
                                    std::string_view bytes, int depth);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_VALUE_PROTO_H_

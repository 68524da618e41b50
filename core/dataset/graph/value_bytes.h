// Values as bytes, for other processes and other languages: the message ValueDef of
// proto/tutti/v1/dataset.proto and nothing around it, so that whoever has that file can read them.
#ifndef TUTTI_CORE_DATASET_GRAPH_VALUE_BYTES_H_
#define TUTTI_CORE_DATASET_GRAPH_VALUE_BYTES_H_

#include <string>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/value.h"

namespace tutti {

class DatasetEnvironment;

// Tensors, texts, optionals and datasets (their definitions) in any structure of 32 levels.
// FAILED_PRECONDITION for leaves that live in this process only: objects of the host, variables,
// values per replica.
Result<std::string> SerializeValue(const Value& value);
// INVALID_ARGUMENT for bytes that are no value. Datasets in it are made in `environment`.
Result<Ref<const Value>> ParseValue(const Ref<DatasetEnvironment>& environment,
                                    std::string_view bytes);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_VALUE_BYTES_H_

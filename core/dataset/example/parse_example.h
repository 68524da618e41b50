// parse_example: the native function from serialised tf.train.Example messages (bytes, any shape)
// to a dict of their features, each of the input's shape followed by its own. It runs without the
// host, on rows and slabs alike, and can be written down.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Function> parse, MakeParseExample({
//       {.key = "image", .dtype = DType::kFloat32, .shape = Shape({64})},
//       {.key = "label", .dtype = DType::kInt64, .shape = Shape()}}));
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> digits, records->Map(parse));
#ifndef TUTTI_CORE_DATASET_EXAMPLE_PARSE_EXAMPLE_H_
#define TUTTI_CORE_DATASET_EXAMPLE_PARSE_EXAMPLE_H_

#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/example/example_parser.h"

namespace tutti {

class Function;
class FunctionRegistry;

// INVALID_ARGUMENT as ExampleParser::Create.
Result<Ref<Function>> MakeParseExample(std::vector<ExampleFeature> features);

// The function that Define wrote down. INVALID_ARGUMENT for other bytes.
Result<Ref<Function>> ReadParseExample(std::string_view payload);
// The features of it.
Result<std::vector<ExampleFeature>> ReadParseExampleFeatures(std::string_view payload);

// Makes the registry read such definitions.
Status AddParseExampleKind(FunctionRegistry* functions);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_PARSE_EXAMPLE_H_

// parse_sequence_example: the native function from a serialised tf.train.SequenceExample (bytes, a
// scalar) to a tuple: a dict of its context features, and a dict of its feature lists, each of as
// many rows as the list has steps.
//
//   message SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
//   message FeatureLists { map<string, FeatureList> feature_list = 1; }
//   message FeatureList { repeated Feature feature = 1; }
//
// A context feature is as parse_example has it, of any kind. Every step of a kFixed list has the
// values of its feature; a default value stands for steps without values, and the list may be
// missing altogether, which is a list of no steps. The steps of a kVarLen or kRagged list have any
// number of values, none included, and become the rows of one sparse or ragged tensor; such a list
// may be missing. The reference: tf.io.parse_single_sequence_example.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_PARSE_SEQUENCE_EXAMPLE_H_
#define TUTTI_CORE_DATASET_EXAMPLE_PARSE_SEQUENCE_EXAMPLE_H_

#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/example/example_parser.h"

namespace tutti {

class Function;
class FunctionRegistry;

// INVALID_ARGUMENT as ExampleParser::Create, for each of the two, and for a list of kSequence,
// whose steps would have no one length; either may be empty, not both.
Result<Ref<Function>> MakeParseSequenceExample(std::vector<ExampleFeature> context,
                                               std::vector<ExampleFeature> lists);

// The function that Define wrote down. INVALID_ARGUMENT for other bytes.
Result<Ref<Function>> ReadParseSequenceExample(std::string_view payload);

// Makes the registry read such definitions.
Status AddParseSequenceExampleKind(FunctionRegistry* functions);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_PARSE_SEQUENCE_EXAMPLE_H_

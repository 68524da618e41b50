// The environment that datasets begin with: the ops of this room, and the kinds of native functions
// that it brings.

#include <utility>

#include "core/dataset/example/decode_csv.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/example/parse_sequence_example.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/function/function_registry.h"

namespace tutti {

Ref<DatasetEnvironment> DatasetEnvironment::Create(Ref<Environment> environment,
                                                   Ref<FunctionRegistry> functions) {
  Ref<DatasetEnvironment> made =
      MakeRef<DatasetEnvironment>(std::move(environment), std::move(functions));
  AddBuiltinOps(&made->ops_);
  // A registry that several environments share knows the kinds already.
  if (made->functions_) {
    (void)AddParseExampleKind(made->functions_.get());
    (void)AddDecodeCsvKind(made->functions_.get());
    (void)AddParseSequenceExampleKind(made->functions_.get());
    (void)AddExpressionKind(made->functions_.get());
  }
  return made;
}

}  // namespace tutti

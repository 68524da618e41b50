#include "core/dataset/dataset_environment.h"

#include <utility>

#include "core/dataset/parse_example.h"
#include "core/function/function_registry.h"

namespace tutti {

DatasetEnvironment::DatasetEnvironment(Ref<Environment> environment,
                                       Ref<FunctionRegistry> functions)
    : environment_(std::move(environment)), functions_(std::move(functions)) {}

DatasetEnvironment::~DatasetEnvironment() = default;

Ref<DatasetEnvironment> DatasetEnvironment::Create(Ref<Environment> environment,
                                                   Ref<FunctionRegistry> functions) {
  Ref<DatasetEnvironment> made =
      MakeRef<DatasetEnvironment>(std::move(environment), std::move(functions));
  AddBuiltinOps(&made->ops_);
  // A registry that serves several of these knows the kind already.
  if (made->functions_) (void)AddParseExampleKind(made->functions_.get());
  // A registry that several environments share knows the kind already.
  if (made->functions_) (void)AddParseExampleKind(made->functions_.get());
  return made;
}

}  // namespace tutti

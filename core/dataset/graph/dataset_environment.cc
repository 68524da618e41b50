#include "core/dataset/graph/dataset_environment.h"

#include <utility>

#include "core/function/function_registry.h"

namespace tutti {

DatasetEnvironment::DatasetEnvironment(Ref<Environment> environment,
                                       Ref<FunctionRegistry> functions)
    : environment_(std::move(environment)), functions_(std::move(functions)) {}

DatasetEnvironment::~DatasetEnvironment() = default;

}  // namespace tutti

#include "core/function/function.h"

#include "core/base/error.h"

namespace tutti {

Function::~Function() = default;

Result<FunctionDefinition> Function::Define() const {
  return FailedPrecondition(
      "function {} is a callback of this process and cannot be written down; register it under a "
      "name, or use an expression",
      Quote(name_));
}

}  // namespace tutti

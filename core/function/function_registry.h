// FunctionRegistry: names for functions, and readers for function definitions. A graph that names a
// function runs wherever that name is registered. The runtime owns one and hands it to who needs
// it.

#ifndef TUTTI_CORE_FUNCTION_FUNCTION_REGISTRY_H_
#define TUTTI_CORE_FUNCTION_FUNCTION_REGISTRY_H_

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/function/function.h"

namespace tutti {

class FunctionRegistry final : public RefCounted {
 public:
  // Reads a payload that Define wrote; trusts nothing in it.
  using Reader = Result<Ref<Function>> (*)(std::string_view payload);

  FunctionRegistry();

  // ALREADY_EXISTS when the name is taken, INVALID_ARGUMENT for an empty one.
  Status Register(std::string name, Ref<Function> function);
  // Functions that were found before keep working. NOT_FOUND names the nearest.
  Status Unregister(std::string_view name);
  // What it gives defines itself by the name. NOT_FOUND names the nearest.
  Result<Ref<Function>> Find(std::string_view name) const;
  // In byte order.
  std::vector<std::string> Names() const;

  // Adds a kind of definitions. ALREADY_EXISTS when the kind is known.
  Status AddKind(std::string kind, Reader reader);
  // The function that a definition means. UNIMPLEMENTED for an unknown kind.
  Result<Ref<Function>> Make(const FunctionDefinition& definition) const;

  // Gives up all functions, so that what they captured is freed while callbacks can still run.
  void Clear();

 private:
  ~FunctionRegistry() override;

  Status NoSuchName(std::string_view name) const;

  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, Ref<Function>, std::less<>> functions_;
  std::map<std::string, Reader, std::less<>> readers_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_FUNCTION_FUNCTION_REGISTRY_H_

// Function: what a strategy runs and a dataset maps with. C's tutti_function* is a pointer to one.
//
// Three kinds stand behind the one call: a callback of the host (callback.h), a function that was
// registered under a name (function_registry.h), and native functions, which need no host, may be
// serialised and run on whole slabs: those that rooms above bring, and expressions.

#ifndef TUTTI_CORE_FUNCTION_FUNCTION_H_
#define TUTTI_CORE_FUNCTION_FUNCTION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/function/context.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

namespace tutti {

// What `in` and `out` of one call hold.
enum class Granularity : int32_t {
  kRow = 1,     // one row
  kSlab = 2,    // many rows: every leaf has one more leading dimension
  kEither = 3,  // leading dimensions pass through: rows and slabs alike
};

// How a function is written down: the kind says who can read the payload. Kinds are "registered"
// (the payload is the name) and those that were added to a FunctionRegistry.
struct FunctionDefinition {
  std::string kind;
  std::string payload;

  bool operator==(const FunctionDefinition&) const = default;
};

class Function : public RefCounted {
 public:
  // Computes *out from `in`. *out is untouched on failure, and never null on success. Threads: any,
  // as far as the host's own function allows it.
  virtual Status Call(Context& context, const Value& in, Ref<Value>* out) = 0;

  virtual Granularity granularity() const = 0;
  bool takes_slabs() const { return granularity() != Granularity::kRow; }
  // True when a call runs code of the host, which may be slow, unsafe to repeat, or gone elsewhere.
  virtual bool calls_host() const = 0;

  // The spec of one row's result for one row of `input` (null: not known). Null, with success, when
  // only a call can tell. INVALID_ARGUMENT when the function cannot take such input.
  virtual Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const = 0;

  // FAILED_PRECONDITION for what runs here only.
  virtual Result<FunctionDefinition> Define() const;

  // Of a function that cannot be defined: what tells its code from other code, as its language's
  // binding knows it; empty where nobody does. What is kept over processes (snapshots) goes by it.
  virtual std::string_view fingerprint() const { return {}; }

  // Of a function that calls the host: why it is no native one, as its language's binding knows it,
  // for people; empty where nobody said.
  virtual std::string_view callback_reason() const { return {}; }

  // For messages; may be empty.
  const std::string& name() const noexcept { return name_; }

 protected:
  explicit Function(std::string name) : name_(std::move(name)) {}
  ~Function() override;

 private:
  const std::string name_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_FUNCTION_FUNCTION_H_

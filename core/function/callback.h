// Functions of the host. A borrowed callback lives on the stack of the call that takes it and frees
// nothing; a stored one owns its user_data, whose destroy function runs exactly once (host_data.h).

#ifndef TUTTI_CORE_FUNCTION_CALLBACK_H_
#define TUTTI_CORE_FUNCTION_CALLBACK_H_

#include <string>

#include "core/base/host_data.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/function/function.h"

namespace tutti {

// The computing signature, C's tutti_fn in core types. Success is null; *out is a reference that
// the caller takes over, and null means none. Failure is a status that the caller takes over.
using CallbackFn = const StatusRep* (*)(Context* context, const Value* in, Value** out,
                                        void* user_data);

// Calls it, in the context's class, and takes over what it returns. The status of a callback that
// failed is handed on as it is, with its host object.
Status CallHostFunction(CallbackFn fn, void* user_data, Context& context, const Value& in,
                        Ref<Value>* out);

// For synchronous calls: create it on the stack, pass it by reference.
class BorrowedCallback final : public Function {
 public:
  BorrowedCallback(CallbackFn fn, void* user_data) : Function(""), fn_(fn), user_data_(user_data) {}
  // Nobody may hold a reference when the call returns.
  ~BorrowedCallback() override;

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    return CallHostFunction(fn_, user_data_, context, in, out);
  }
  Granularity granularity() const override { return Granularity::kRow; }
  bool calls_host() const override { return true; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override;

  CallbackFn fn() const noexcept { return fn_; }
  void* user_data() const noexcept { return user_data_; }

 private:
  void OnLastRelease() const noexcept override {}

  const CallbackFn fn_;
  void* const user_data_;
};

struct StoredCallbackOptions {
  std::string name;  // for messages
  Granularity granularity = Granularity::kRow;
  Ref<const ElementSpec> output_spec;  // of one row; null: the first call tells
  std::string fingerprint;             // Function::fingerprint
  std::string reason;                  // Function::callback_reason
};

class StoredCallback final : public Function {
 public:
  // `user_data` frees what it holds whether this succeeds or not. INVALID_ARGUMENT without `fn`.
  static Result<Ref<Function>> Create(CallbackFn fn, Ref<HostData> user_data,
                                      StoredCallbackOptions options = {});

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    return CallHostFunction(fn_, user_data_->data(), context, in, out);
  }
  Granularity granularity() const override { return options_.granularity; }
  bool calls_host() const override { return true; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override;
  std::string_view fingerprint() const override { return options_.fingerprint; }
  std::string_view callback_reason() const override { return options_.reason; }

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  StoredCallback(CallbackFn fn, Ref<HostData> user_data, StoredCallbackOptions options);
  ~StoredCallback() override;

  const CallbackFn fn_;
  const Ref<HostData> user_data_;
  const StoredCallbackOptions options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_FUNCTION_CALLBACK_H_

#include "core/function/callback.h"

#include <cassert>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/leaf.h"

namespace tutti {

Status CallHostFunction(CallbackFn fn, void* user_data, Context& context, const Value& in,
                        Ref<Value>* out) {
  CallbackScope scope(context.callback_class());
  Value* raw = nullptr;
  Status status = Status::Adopt(fn(&context, &in, &raw, user_data));
  Ref<Value> result = Ref<Value>::Adopt(raw);
  if (!status.ok()) return status;
  // What a dataset is made of is read by the host.
  if (context.callback_class() == CallbackClass::kDataset && result) {
    for (const Leaf& leaf : result->leaves()) {
      if (leaf.kind() != LeafKind::kTensor) continue;
      TUTTI_RETURN_IF_ERROR(CheckOnHost("the result of a function of a dataset", leaf.tensor()));
    }
  }
  *out = result ? std::move(result) : Value::None();
  return status;
}

BorrowedCallback::~BorrowedCallback() {
  assert(IsUnique() && "somebody keeps a borrowed callback beyond the call that it was lent to");
}

Result<Ref<const ElementSpec>> BorrowedCallback::OutputSpec(const ElementSpec*) const {
  return Ref<const ElementSpec>();
}

StoredCallback::StoredCallback(CallbackFn fn, Ref<HostData> user_data,
                               StoredCallbackOptions options)
    : Function(options.name),
      fn_(fn),
      user_data_(std::move(user_data)),
      options_(std::move(options)) {}

StoredCallback::~StoredCallback() = default;

Result<Ref<Function>> StoredCallback::Create(CallbackFn fn, Ref<HostData> user_data,
                                             StoredCallbackOptions options) {
  if (fn == nullptr) {
    return InvalidArgument("function {}: the function pointer is null", Quote(options.name));
  }
  if (options.granularity == Granularity::kEither) {
    return InvalidArgument("function {}: a callback takes rows or slabs, not either",
                           Quote(options.name));
  }
  return Ref<Function>(MakeRef<StoredCallback>(fn, std::move(user_data), std::move(options)));
}

Result<Ref<const ElementSpec>> StoredCallback::OutputSpec(const ElementSpec*) const {
  return options_.output_spec;
}

}  // namespace tutti

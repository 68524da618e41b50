// OpaqueState: an object whose state is a string of bytes (an iterator's position) as an object of
// a checkpoint. The file holds the bytes as a U8 tensor.
#ifndef TUTTI_CORE_CHECKPOINT_OPAQUE_STATE_H_
#define TUTTI_CORE_CHECKPOINT_OPAQUE_STATE_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/saveable.h"

namespace tutti {

class OpaqueState final : public RefCounted, public Saveable {
 public:
  using SaveFunction = std::function<Result<std::string>(const CallOptions& call)>;
  // On failure the object is what it was.
  using RestoreFunction = std::function<Status(std::string_view state, const CallOptions& call)>;

  OpaqueState(SaveFunction save, RestoreFunction restore)
      : save_(std::move(save)), restore_(std::move(restore)) {}

  // Of an object with Save(call) and Restore(state, call), which this keeps.
  template <class T>
  static Ref<OpaqueState> Of(Ref<T> object) {
    return MakeRef<OpaqueState>(
        [object](const CallOptions& call) { return object->Save(call); },
        [object](std::string_view state, const CallOptions& call) {
          return object->Restore(state, call);
        });
  }

  Status Save(std::string_view prefix, SaveSink* sink) override;
  Status Restore(std::string_view prefix, RestoreSource* source) override;

 private:
  const SaveFunction save_;
  const RestoreFunction restore_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_OPAQUE_STATE_H_

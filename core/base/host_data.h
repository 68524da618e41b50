// HostData: a pointer of the host's together with the function that frees it: the user_data of a
// stored callback, a buffer that the host lent, the exception object inside a status.
//
// `destroy` runs exactly once: on the callback executor, or, when that is missing or has shut down,
// on the thread that gave up the last reference. It runs in the notification class, with no lock of
// ours held. Retaining and releasing never block.

#ifndef TUTTI_CORE_BASE_HOST_DATA_H_
#define TUTTI_CORE_BASE_HOST_DATA_H_

#include "core/base/executor.h"
#include "core/base/ref.h"

namespace tutti {

class HostData final : public RefCounted {
 public:
  using Destroy = void (*)(void* data);

  // `destroy` may be null (nothing to free), and so may `executor`. `tag` tells bindings whose
  // object it is.
  HostData(void* data, Destroy destroy, Ref<CallbackExecutor> executor,
           const void* tag = nullptr) noexcept
      : data_(data), destroy_(destroy), tag_(tag), executor_(std::move(executor)) {}

  void* data() const noexcept { return data_; }
  const void* tag() const noexcept { return tag_; }
  Destroy destroy() const noexcept { return destroy_; }

 private:
  ~HostData() override = default;
  void OnLastRelease() const noexcept override;
  static void Finish(const HostData* self) noexcept;

  void* data_;
  Destroy destroy_;
  const void* tag_;
  Ref<CallbackExecutor> executor_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_HOST_DATA_H_

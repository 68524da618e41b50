// The caller's stream and a call of tensors on GPUs. What was given to it comes before the call:
// the streams of the tensors wait for it, and whatever touches the tensors comes behind those
// (BeginUse). When the results stand on those streams, it waits for them. The host waits for
// neither.

#include "core/base/error.h"
#include "core/collective/communicator/call_scope.h"
#include "core/device/gpu_memory.h"

namespace tutti {

Status Communicator::CallScope::CheckStream() const {
  if (!options_->stream) return OkStatus();
  const GpuStream& stream = *options_->stream;
  if (gpu_ == nullptr) {
    return InvalidArgument(
               "the stream is one of {}, and no tensor of the call lies on a GPU; pass a stream "
               "with tensors of its GPU only",
               stream.device_name())
        .With("device", stream.device_name());
  }
  if (stream.place().ordinal == gpu_->place().ordinal) return OkStatus();
  return InvalidArgument("the stream is one of {}, and the tensors lie on {}; pass one of theirs",
                         stream.device_name(), gpu_->device_name())
      .With("device", stream.device_name());
}

Status Communicator::CallScope::StartBehindStream(const Tensor& tensor) {
  const GpuStream* const own = StreamOf(tensor);
  if (!options_->stream || own == nullptr) return OkStatus();
  for (const Ref<GpuStream>& used : used_streams_) {
    if (used.get() == own) return OkStatus();
  }
  used_streams_.push_back(Ref<GpuStream>::Retain(const_cast<GpuStream*>(own)));
  return options_->stream_point ? own->WaitFor(*options_->stream_point)
                                : own->WaitFor(*options_->stream);
}

Status Communicator::CallScope::LetStreamFollow() const {
  for (const Ref<GpuStream>& used : used_streams_) {
    TUTTI_RETURN_IF_ERROR(options_->stream->WaitFor(*used));
  }
  return OkStatus();
}

}  // namespace tutti

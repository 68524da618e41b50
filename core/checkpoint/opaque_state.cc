#include "core/checkpoint/opaque_state.h"

#include "core/base/error.h"

namespace tutti {

Status OpaqueState::Save(std::string_view prefix, SaveSink* sink) {
  TUTTI_ASSIGN_OR_RETURN(const std::string state, save_(sink->call_options()));
  return sink->PutTensor(prefix, Tensor::Bytes(state));
}

Status OpaqueState::Restore(std::string_view prefix, RestoreSource* source) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> state, source->GetTensor(prefix));
  if (state->dtype() != DType::kBytes || state->rank() != 0) {
    return InvalidArgument("expected the bytes of a state, found {}", state->spec().ToString());
  }
  return restore_(state->item<BytesView>().text(), source->call_options());
}

}  // namespace tutti

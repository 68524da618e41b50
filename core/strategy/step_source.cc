#include "core/strategy/step_source.h"

#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/slab.h"

namespace tutti {

Status StepSource::PassOver(SourcePart* part, const CallOptions& call) const {
  while (part->before > 0 && !part->ended) {
    const Result<Ref<Value>> other = part->iterator->Next(call);
    if (!other.ok()) {
      // What takes more along than one element is everybody's.
      if (IsInterruption(other.status()) || LossOf(other.status()) == Loss::kMany) {
        return other.status();
      }
    } else if (!*other) {
      part->ended = true;
    }
    --part->before;
  }
  return OkStatus();
}

Result<Ref<Value>> StepSource::Next(const CallOptions& call) {
  for (size_t ended = 0; ended < parts_.size();) {
    SourcePart& part = parts_[turn_];
    if (is_dealt_) TUTTI_RETURN_IF_ERROR(PassOver(&part, call));
    if (!part.ended || !is_dealt_) {
      Result<Ref<Value>> element = part.iterator->Next(call);
      if (!element.ok() && IsInterruption(element.status())) return element;
      part.ended = element.ok() && !*element;
      if (!part.ended) {
        if (element.ok() || LossOf(element.status()) != Loss::kMany) part.before = part.stride - 1;
        turn_ = (turn_ + 1) % parts_.size();
        return element;
      }
    }
    ++ended;
    turn_ = (turn_ + 1) % parts_.size();
  }
  return Ref<Value>();
}

Status StepSource::Close(const CallOptions& call) const {
  Status first;
  for (const SourcePart& part : parts_) {
    Status status = part.iterator->Close(call);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace tutti

#include "core/collective/communicator/known_calls.h"

#include <memory>
#include <new>

#include "core/collective/call/call_record.h"

namespace tutti {

void KnownCalls::Learn(int64_t subject, const Tensor& input, const CallHeader& header) {
  const size_t place = PlaceOf(input, header.reduction);
  std::unique_ptr<Entry>& entry = places_[place];
  try {
    if (!entry) entry = std::make_unique<Entry>();
    entry->call.header = header;
  } catch (const std::bad_alloc&) {
    entry.reset();  // the call itself has succeeded, and is known the next time
    return;
  }
  entry->call.known_as = ++learnt_ * kKnownCallPlaces + place;
  entry->bytes = static_cast<int64_t>(input.byte_size());
  entry->begin_record = CallBeginRecord(subject, entry->call, entry->bytes);
}

}  // namespace tutti

#include "core/device/gpu_stream.h"

#include <utility>

#include "core/base/error.h"
#include "core/device/gpu_wait.h"

namespace tutti {

Status DeviceUse::Reserve(int64_t bytes) {
  int64_t used = used_.load();
  do {
    if (limit_bytes_ != 0 && (bytes > limit_bytes_ || used > limit_bytes_ - bytes)) {
      return ResourceExhausted(
                 "{}: {} bytes of its memory were asked for, {} of its limit of {} are in use; use "
                 "smaller batches, hold fewer tensors or raise the memory_limit of the logical "
                 "device",
                 name_, bytes, used, limit_bytes_)
          .With("device", name_)
          .With("requested_bytes", bytes)
          .With("used_bytes", used)
          .With("limit_bytes", limit_bytes_);
    }
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return OkStatus();
}

void DeviceUse::CountPeak() {
  const int64_t used = used_.load();
  int64_t peak = peak_.load();
  while (peak < used && !peak_.compare_exchange_weak(peak, used)) {
  }
}

GpuStream::GpuStream(const GpuPlace& place, tutti_plugin_stream* stream)
    : place_(place), device_name_(place.id.ToString()), stream_(stream) {}

GpuStream::~GpuStream() { place_.api().destroy_stream(stream_); }

Result<Ref<GpuStream>> GpuStream::Create(const GpuPlace& place) {
  tutti_plugin_stream* stream = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
      place.api().create_stream(place.plugin->handle(), place.ordinal, &stream)));
  return MakeRef<GpuStream>(place, stream);
}

Result<Ref<GpuStream>> GpuStream::Wrap(const GpuPlace& place, int64_t handle) {
  tutti_plugin_stream* stream = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
      place.api().wrap_stream(place.plugin->handle(), place.ordinal,
                              static_cast<uint64_t>(handle), &stream)));
  return MakeRef<GpuStream>(place, stream);
}

int64_t GpuStream::handle() const {
  return static_cast<int64_t>(place_.api().stream_handle(stream_));
}

Status GpuStream::Wait(const GpuWait& wait) const {
  return WaitInPlugin(wait, "waiting for work of a GPU", [&](const tutti_plugin_wait* stop) {
    return place_.api().wait_for_stream(stream_, stop);
  });
}

Status GpuStream::WaitFor(const GpuEvent& event) const {
  return DevicePlugin::Taken(place_.api().stream_wait_event(stream_, event.raw()));
}

Status GpuStream::WaitFor(const GpuStream& other) const {
  if (&other == this) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const Ref<GpuEvent> event, GpuEvent::Create(other.place(), false));
  TUTTI_RETURN_IF_ERROR(event->Record(other));
  return WaitFor(*event);
}

Result<Ref<GpuEvent>> GpuEvent::Create(const GpuPlace& place, bool timed) {
  tutti_plugin_event* event = nullptr;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
      place.api().create_event(place.plugin->handle(), place.ordinal, timed ? 1 : 0, &event)));
  return MakeRef<GpuEvent>(place, event);
}

GpuEvent::~GpuEvent() { place_.api().destroy_event(event_); }

Status GpuEvent::Record(const GpuStream& stream) {
  return DevicePlugin::Taken(place_.api().record_event(event_, stream.raw()));
}

Result<bool> GpuEvent::IsReached() const {
  int32_t reached = 0;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(place_.api().query_event(event_, &reached)));
  return reached != 0;
}

Status GpuEvent::Wait(const GpuWait& wait) const {
  return WaitInPlugin(wait, "waiting for work of a GPU", [&](const tutti_plugin_wait* stop) {
    return place_.api().wait_for_event(event_, stop);
  });
}

Result<int64_t> GpuEvent::ElapsedNs(const GpuEvent& begin, const GpuEvent& end) {
  double ms = 0;
  TUTTI_RETURN_IF_ERROR(
      DevicePlugin::Taken(begin.place_.api().event_elapsed(begin.event_, end.event_, &ms)));
  return static_cast<int64_t>(ms * 1e6);
}

}  // namespace tutti

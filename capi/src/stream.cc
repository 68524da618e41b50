// Streams and events of GPUs.
#include <tutti/stream.h>

#include <utility>

#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/device/gpu_memory.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

// The wait of a call that takes options. They are read, and used, within it.
struct ReadWait {
  CallOptions options;
  const Clock *clock = nullptr;
  GpuWait get() const { return GpuWait{&options, clock}; }
};

Result<ReadWait> ReadWaitOf(Call call, const tutti_call_options *options) {
  ReadWait wait;
  // The work is a device's, which knows no other.
  const Clock &clock = RealClock();
  wait.clock = &clock;
  TUTTI_ASSIGN_OR_RETURN(wait.options, ReadCallAlways(call, clock, kNeverNs, options));
  return wait;
}

Result<GpuMemory *> FindGpu(Call call, const Device &device) {
  if (GpuMemory *const gpu = GpuMemoryOf(device)) return gpu;
  return InvalidArgument("{}: {} has no streams, whose work is done when a call returns; name a "
                         "GPU",
                         call.function, device.short_name());
}

}  // namespace

tutti_status *tutti_stream_create(tutti_runtime *runtime, const char *device,
                                  tutti_stream **out_stream) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, device, out_stream);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> found, root->devices().Find(device));
    TUTTI_ASSIGN_OR_RETURN(const GpuMemory *const gpu, FindGpu(call, *found));
    TUTTI_ASSIGN_OR_RETURN(auto stream, GpuStream::Create(gpu->place()));
    *out_stream = Give(std::move(stream));
    return OkStatus();
  });
}

tutti_status *tutti_stream_wrap(tutti_runtime *runtime, const char *device, int64_t handle,
                                tutti_stream **out_stream) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, device, out_stream);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> found, root->devices().Find(device));
    TUTTI_ASSIGN_OR_RETURN(const GpuMemory *const gpu, FindGpu(call, *found));
    TUTTI_ASSIGN_OR_RETURN(auto stream, GpuStream::Wrap(gpu->place(), handle));
    *out_stream = Give(std::move(stream));
    return OkStatus();
  });
}

tutti_status *tutti_device_get_stream(tutti_runtime *runtime, const char *device,
                                      tutti_stream **out_stream) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, device, out_stream);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> found, root->devices().Find(device));
    TUTTI_ASSIGN_OR_RETURN(GpuMemory *const gpu, FindGpu(call, *found));
    TUTTI_ASSIGN_OR_RETURN(auto stream, gpu->stream());
    *out_stream = Give(std::move(stream));
    return OkStatus();
  });
}

tutti_status *tutti_device_find_stream(tutti_runtime *runtime, int64_t cuda_device,
                                       tutti_stream **out_stream) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_stream);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> found,
                           root->devices().FindGpuByOrdinal(static_cast<int>(cuda_device)));
    TUTTI_ASSIGN_OR_RETURN(auto stream, GpuMemoryOf(*found)->stream());
    *out_stream = Give(std::move(stream));
    return OkStatus();
  });
}

int64_t tutti_stream_get_handle(const tutti_stream *stream) {
  return stream == nullptr ? 0 : FromHandle(stream)->handle();
}

const char *tutti_stream_get_device(const tutti_stream *stream) {
  return stream == nullptr ? "" : FromHandle(stream)->device_name().c_str();
}

tutti_status *tutti_stream_synchronize(tutti_stream *stream, const tutti_call_options *options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, stream);
    TUTTI_ASSIGN_OR_RETURN(const ReadWait wait, ReadWaitOf(call, options));
    return FromHandle(stream)->Wait(wait.get());
  });
}

tutti_status *tutti_stream_wait_event(tutti_stream *stream, const tutti_event *event) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, stream, event);
    return FromHandle(stream)->WaitFor(*FromHandle(event));
  });
}

tutti_status *tutti_stream_wait_stream(tutti_stream *stream, const tutti_stream *earlier) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, stream, earlier);
    return FromHandle(stream)->WaitFor(*FromHandle(earlier));
  });
}

void tutti_stream_retain(const tutti_stream *stream) { RetainHandle(stream); }
void tutti_stream_release(const tutti_stream *stream) { ReleaseHandle(stream); }

tutti_status *tutti_event_create(tutti_runtime *runtime, const char *device,
                                 const tutti_event_options *options, tutti_event **out_event) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, device, out_event);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const bool timed, ReadTristate(call, set.timed, false, "timed"));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> found, root->devices().Find(device));
    TUTTI_ASSIGN_OR_RETURN(const GpuMemory *const gpu, FindGpu(call, *found));
    TUTTI_ASSIGN_OR_RETURN(auto event, GpuEvent::Create(gpu->place(), timed));
    *out_event = Give(std::move(event));
    return OkStatus();
  });
}

tutti_status *tutti_event_record(tutti_event *event, const tutti_stream *stream) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, event, stream);
    return FromHandle(event)->Record(*FromHandle(stream));
  });
}

tutti_status *tutti_event_query(const tutti_event *event, int64_t *out_reached) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, event, out_reached);
    TUTTI_ASSIGN_OR_RETURN(const bool reached, FromHandle(event)->IsReached());
    *out_reached = reached ? 1 : 0;
    return OkStatus();
  });
}

tutti_status *tutti_event_synchronize(const tutti_event *event,
                                      const tutti_call_options *options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, event);
    TUTTI_ASSIGN_OR_RETURN(const ReadWait wait, ReadWaitOf(call, options));
    return FromHandle(event)->Wait(wait.get());
  });
}

tutti_status *tutti_event_read_elapsed(const tutti_event *begin, const tutti_event *end,
                                       int64_t *out_nanoseconds) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, begin, end, out_nanoseconds);
    TUTTI_ASSIGN_OR_RETURN(*out_nanoseconds,
                           GpuEvent::ElapsedNs(*FromHandle(begin), *FromHandle(end)));
    return OkStatus();
  });
}

void tutti_event_retain(const tutti_event *event) { RetainHandle(event); }
void tutti_event_release(const tutti_event *event) { ReleaseHandle(event); }

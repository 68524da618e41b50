// Streams, events, and waiting for them: never inside the driver where somebody may want to end the
// wait, but by asking again, at first at once and then ever more rarely.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "core/cuda/plugin.h"

namespace tutti::cuda {
namespace {

template <class Query>
tutti_status* Wait(tutti_plugin* plugin, int32_t device, const tutti_plugin_wait* wait,
                   Query query) {
  using std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(50);
  constexpr auto kLongestPause = std::chrono::microseconds(200);
  const auto began = steady_clock::now();
  for (;;) {
    const Outcome outcome = query();
    if (outcome == kSuccess) return nullptr;
    if (outcome != kNotReady) return plugin->FailAs(outcome, device, "waiting for its work");
    if (wait != nullptr && wait->stop != nullptr) {
      TUTTI_CUDA_RETURN_IF(wait->stop(wait->user_data));
    }
    const auto waited = steady_clock::now() - began;
    if (waited > kSpin) {
      std::this_thread::sleep_for(std::min<steady_clock::duration>(waited / 8, kLongestPause));
    }
  }
}

}  // namespace

tutti_status* CreateStream(tutti_plugin* plugin, int32_t device, tutti_plugin_stream** out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    auto stream = std::make_unique<tutti_plugin_stream>(
        tutti_plugin_stream{plugin, device, nullptr, true});
    TUTTI_CUDA_CALL(plugin, device, plugin->driver.StreamCreate(&stream->stream,
                                                                kStreamNonBlocking),
                    "a stream cannot be made");
    *out = stream.release();
    return nullptr;
  });
}

tutti_status* WrapStream(tutti_plugin* plugin, int32_t device, uint64_t handle,
                         tutti_plugin_stream** out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    if (handle == 0) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          DeviceName(device) + ": stream 0 says nothing; pass 1 for the default "
                                               "stream, 2 for that of the calling thread, or the "
                                               "handle of a stream");
    }
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    const auto stream = reinterpret_cast<Stream>(handle);
    Context context = nullptr;
    TUTTI_CUDA_CALL(plugin, device, plugin->driver.StreamGetCtx(stream, &context),
                    "stream " + std::to_string(handle) + " cannot be wrapped");
    if (context != plugin->devices[static_cast<size_t>(device)]->context.load()) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          DeviceName(device) + ": stream " + std::to_string(handle) +
                              " belongs to another device, or to a context that is not the "
                              "device's primary one");
    }
    *out = new tutti_plugin_stream{plugin, device, stream, false};
    return nullptr;
  });
}

uint64_t StreamHandle(tutti_plugin_stream* stream) {
  return reinterpret_cast<uint64_t>(stream->stream);
}

int32_t StreamDevice(tutti_plugin_stream* stream) { return stream->device; }

tutti_status* WaitForStream(tutti_plugin_stream* stream, const tutti_plugin_wait* wait) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    Current current(plugin, stream->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    return Wait(plugin, stream->device, wait,
                [&] { return plugin->driver.StreamQuery(stream->stream); });
  });
}

void DestroyStream(tutti_plugin_stream* stream) {
  if (stream == nullptr) return;
  if (stream->owned) {
    Current current(stream->plugin, stream->device);
    stream->plugin->driver.StreamDestroy(stream->stream);
  }
  delete stream;
}

tutti_status* CreateEvent(tutti_plugin* plugin, int32_t device, int32_t timed,
                          tutti_plugin_event** out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    auto event = std::make_unique<tutti_plugin_event>(
        tutti_plugin_event{plugin, device, nullptr, timed != 0});
    TUTTI_CUDA_CALL(plugin, device,
                    plugin->driver.EventCreate(&event->event,
                                               timed != 0 ? kEventDefault : kEventWithoutTime),
                    "an event cannot be made");
    *out = event.release();
    return nullptr;
  });
}

tutti_status* RecordEvent(tutti_plugin_event* event, tutti_plugin_stream* stream) {
  tutti_plugin* const plugin = event->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    if (event->device != stream->device) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          "an event of " + DeviceName(event->device) +
                              " cannot be recorded on a stream of " + DeviceName(stream->device) +
                              "; make one on that device");
    }
    Current current(plugin, event->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    TUTTI_CUDA_CALL(plugin, event->device,
                    plugin->driver.EventRecord(event->event, stream->stream),
                    "an event cannot be recorded");
    return nullptr;
  });
}

tutti_status* QueryEvent(tutti_plugin_event* event, int32_t* out_reached) {
  tutti_plugin* const plugin = event->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    Current current(plugin, event->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    const Outcome outcome = plugin->driver.EventQuery(event->event);
    if (outcome != kSuccess && outcome != kNotReady) {
      return plugin->FailAs(outcome, event->device, "waiting for its work");
    }
    *out_reached = outcome == kSuccess ? 1 : 0;
    return nullptr;
  });
}

tutti_status* WaitForEvent(tutti_plugin_event* event, const tutti_plugin_wait* wait) {
  tutti_plugin* const plugin = event->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    Current current(plugin, event->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    return Wait(plugin, event->device, wait,
                [&] { return plugin->driver.EventQuery(event->event); });
  });
}

tutti_status* StreamWaitEvent(tutti_plugin_stream* stream, tutti_plugin_event* event) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    Current current(plugin, stream->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    TUTTI_CUDA_CALL(plugin, stream->device,
                    plugin->driver.StreamWaitEvent(stream->stream, event->event, 0),
                    "a stream cannot wait for an event");
    return nullptr;
  });
}

tutti_status* EventElapsed(tutti_plugin_event* begin, tutti_plugin_event* end, double* out_ms) {
  tutti_plugin* const plugin = begin->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    if (!begin->timed || !end->timed || begin->device != end->device) {
      return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                          "the time between two events needs two timed events of one device");
    }
    Current current(plugin, begin->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    float ms = 0;
    const Outcome outcome = plugin->driver.EventElapsedTime(&ms, begin->event, end->event);
    if (outcome == kNotReady) {
      return plugin->Fail(TUTTI_FAILED_PRECONDITION,
                          "the time between two events is known when both were reached; wait for "
                          "the second one first");
    }
    TUTTI_CUDA_CALL(plugin, begin->device, outcome, "the time between two events");
    *out_ms = static_cast<double>(ms);
    return nullptr;
  });
}

void DestroyEvent(tutti_plugin_event* event) {
  if (event == nullptr) return;
  {
    Current current(event->plugin, event->device);
    event->plugin->driver.EventDestroy(event->event);
  }
  delete event;
}

tutti_status* Copy(tutti_plugin_stream* stream, int32_t direction, void* to, const void* from,
                   uint64_t bytes) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    if (bytes == 0) return nullptr;
    Current current(plugin, stream->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    const Driver& driver = plugin->driver;
    Outcome outcome;
    switch (direction) {
      case TUTTI_PLUGIN_HOST_TO_DEVICE:
        outcome = driver.MemcpyHtoDAsync(AddressOf(to), from, bytes, stream->stream);
        break;
      case TUTTI_PLUGIN_DEVICE_TO_HOST:
        outcome = driver.MemcpyDtoHAsync(to, AddressOf(from), bytes, stream->stream);
        break;
      case TUTTI_PLUGIN_DEVICE_TO_DEVICE:
        // Addresses are unique over all devices: the driver knows where each lies.
        outcome = driver.MemcpyAsync(AddressOf(to), AddressOf(from), bytes, stream->stream);
        break;
      default:
        return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                            "copy: " + std::to_string(direction) + " is no direction; 1 is host to "
                            "device, 2 device to host, 3 device to device");
    }
    TUTTI_CUDA_CALL(plugin, stream->device, outcome,
                    "a copy of " + std::to_string(bytes) + " bytes");
    return nullptr;
  });
}

tutti_status* Fill(tutti_plugin_stream* stream, void* memory, unsigned char byte, uint64_t bytes) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    if (bytes == 0) return nullptr;
    Current current(plugin, stream->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    TUTTI_CUDA_CALL(plugin, stream->device,
                    plugin->driver.MemsetD8Async(AddressOf(memory), byte, bytes, stream->stream),
                    "memory cannot be filled");
    return nullptr;
  });
}

}  // namespace tutti::cuda

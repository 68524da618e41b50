// Streams and events of a GPU: the order of work there.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<GpuStream> stream, GpuStream::Create(place));
//   TUTTI_RETURN_IF_ERROR(stream->WaitFor(*other));        // on the device: this thread goes on
//   TUTTI_RETURN_IF_ERROR(stream->Wait());                 // this thread waits
//
// Threads: any.
#ifndef TUTTI_CORE_DEVICE_GPU_STREAM_H_
#define TUTTI_CORE_DEVICE_GPU_STREAM_H_

#include <tutti/plugin.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/plugin.h"
#include "core/tensor/device_id.h"

namespace tutti {

// What the tensors of one logical GPU take of its memory. Threads: any.
class DeviceUse final : public RefCounted {
 public:
  // limit_bytes 0: no limit but the device's memory.
  DeviceUse(std::string name, int64_t limit_bytes)
      : name_(std::move(name)), limit_bytes_(limit_bytes) {}

  // RESOURCE_EXHAUSTED with what was asked for, what is used and the limit; nothing is counted
  // then.
  Status Reserve(int64_t bytes);
  void Unreserve(int64_t bytes) { used_.fetch_sub(bytes); }
  // What was reserved has become memory.
  void CountPeak();

  int64_t used_bytes() const { return used_.load(); }
  int64_t peak_bytes() const { return peak_.load(); }
  int64_t limit_bytes() const { return limit_bytes_; }
  // The peak is what is used now.
  void ResetPeak() { peak_.store(used_.load()); }

 private:
  ~DeviceUse() override = default;

  const std::string name_;
  const int64_t limit_bytes_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> peak_{0};
};

// A GPU of an environment: as the environment numbers it, and as CUDA does. Several logical GPUs
// may share one of CUDA's, and its memory.
struct GpuPlace {
  Ref<DevicePlugin> plugin;
  int ordinal = 0;
  DeviceId id;
  Ref<DeviceUse> use;  // null: nobody counts

  const tutti_plugin_api& api() const { return plugin->api(); }
};

// What ends a wait early; without options nothing does.
struct GpuWait {
  const CallOptions* options = nullptr;
  const Clock* clock = nullptr;
  // Asked again and again as well, with options: an error of it is the wait's. May be null.
  const std::function<Status()>* failure = nullptr;
};

class GpuEvent;

class GpuStream final : public RefCounted {
 public:
  static Result<Ref<GpuStream>> Create(const GpuPlace& place);
  // A stream of another library's, by its handle; 1 is the default stream, 2 that of the calling
  // thread. INVALID_ARGUMENT for 0 and for a stream of another device. It stays its owner's.
  static Result<Ref<GpuStream>> Wrap(const GpuPlace& place, int64_t handle);

  const GpuPlace& place() const { return place_; }
  const std::string& device_name() const { return device_name_; }  // "GPU:0"
  int64_t handle() const;
  tutti_plugin_stream* raw() const { return stream_; }

  // Until all that has been given to the stream is done: DATA_LOSS when some of it failed,
  // DEADLINE_EXCEEDED and CANCELLED as the options say, and the work goes on.
  Status Wait(const GpuWait& wait = {}) const;
  // What is given to this stream later runs after the event, and after all that `other` has now.
  Status WaitFor(const GpuEvent& event) const;
  Status WaitFor(const GpuStream& other) const;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  GpuStream(const GpuPlace& place, tutti_plugin_stream* stream);
  ~GpuStream() override;

  const GpuPlace place_;
  const std::string device_name_;
  tutti_plugin_stream* const stream_;
};

// A point in the work of a stream; one that was never recorded counts as reached.
class GpuEvent final : public RefCounted {
 public:
  // `timed`: ElapsedNs takes it.
  static Result<Ref<GpuEvent>> Create(const GpuPlace& place, bool timed);

  const GpuPlace& place() const { return place_; }
  tutti_plugin_event* raw() const { return event_; }
  // INVALID_ARGUMENT for a stream of another device.
  Status Record(const GpuStream& stream);
  Result<bool> IsReached() const;
  Status Wait(const GpuWait& wait = {}) const;
  // Between two timed events that were reached.
  static Result<int64_t> ElapsedNs(const GpuEvent& begin, const GpuEvent& end);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  GpuEvent(const GpuPlace& place, tutti_plugin_event* event) : place_(place), event_(event) {}
  ~GpuEvent() override;

  const GpuPlace place_;
  tutti_plugin_event* const event_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_STREAM_H_

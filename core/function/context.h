// Context: what a computing callback is handed: who calls it, for which replica, and whether it
// should give up. C's tutti_context* is a pointer to one. Borrowed: it ends with the callback.
//
// This class says what every callback may ask. The room that runs replicas derives its own context
// from it and adds what replicas do together.

#ifndef TUTTI_CORE_FUNCTION_CONTEXT_H_
#define TUTTI_CORE_FUNCTION_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/callback_scope.h"
#include "core/base/environment.h"

namespace tutti {

class Device;
class Strategy;  // of a room above: only its address is known here

// What differs from one kind of caller to the next; the defaults are those of a dataset callback.
struct ContextFields {
  CallbackClass callback_class = CallbackClass::kDataset;
  int64_t replica_id = -1;    // among all replicas in sync; -1 outside of replica callbacks
  int64_t num_replicas = 1;
  int64_t global_rows = -1;   // of this step over all replicas; -1 where there is no such number
  const Device* device = nullptr;
  Strategy* strategy = nullptr;
  CallOptions options;        // of the call that runs the callback
};

class Context {
 public:
  explicit Context(Environment& environment, const ContextFields& fields = {})
      : environment_(environment), fields_(fields) {}
  virtual ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Environment& environment() const noexcept { return environment_; }
  CallbackClass callback_class() const noexcept { return fields_.callback_class; }
  int64_t replica_id() const noexcept { return fields_.replica_id; }
  int64_t num_replicas() const noexcept { return fields_.num_replicas; }
  int64_t global_rows() const noexcept { return fields_.global_rows; }
  const Device* device() const noexcept { return fields_.device; }
  // "CPU:0", NUL-terminated; "" without a device.
  std::string_view device_name() const noexcept;
  Strategy* strategy() const noexcept { return fields_.strategy; }
  const CallOptions& options() const noexcept { return fields_.options; }

  // True when nobody waits for the result any more: the call was cancelled or ran out of time.
  virtual bool cancelled() const;

 protected:
  ContextFields& fields() noexcept { return fields_; }

 private:
  Environment& environment_;
  ContextFields fields_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_FUNCTION_CONTEXT_H_

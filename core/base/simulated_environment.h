// SimulatedEnvironment: virtual time from a seed, one thread, a disk in memory. Tasks become
// events; when several are due at the same time, the seed picks the next. The same seed gives the
// same trace, so a failure is found again by its number.
//
//   Ref<SimulatedEnvironment> world = MakeRef<SimulatedEnvironment>(42);
//   world->executor().PostAfter(5 * kSecondNs, [&] { fired = true; });
//   world->RunFor(10 * kSecondNs);                    // takes no real time
//
// A wait inside a task or the test itself (WaitUntil with this clock) runs events until its
// condition holds, and is an error when no event is left that could make it so.

#ifndef TUTTI_CORE_BASE_SIMULATED_ENVIRONMENT_H_
#define TUTTI_CORE_BASE_SIMULATED_ENVIRONMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/base/recorder.h"

namespace tutti {

class Simulation;

class SimulatedEnvironment final : public Environment {
 public:
  explicit SimulatedEnvironment(uint64_t seed);

  uint64_t seed() const noexcept;
  // Runs one event, moving time to it. False when there is none.
  bool Step();
  // Runs events until none is left, or `max_events` of them have run; returns how many.
  uint64_t RunUntilIdle(uint64_t max_events = 1'000'000);
  // Runs what is due within `duration_ns`, and leaves the clock at its end.
  void RunFor(int64_t duration_ns);
  // One line per event, log line and Note so far: "12000000 timer 7".
  const std::string& trace() const noexcept;
  // Adds a line to the trace.
  void Note(std::string_view text);

  Result<Thread> StartThread(std::string_view name, Task task) override;

 protected:
  ~SimulatedEnvironment() override;
  Status OnShutdown(const CallOptions& options) override;

 private:
  std::unique_ptr<Simulation> simulation_;
  Log log_;
  Recorder recorder_;
  Ref<MemoryAccount> memory_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_SIMULATED_ENVIRONMENT_H_

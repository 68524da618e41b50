// Ending communicators at once. NCCL's abort may wait for a peer, or for a kernel that never ends,
// and nothing can end that wait. So it runs on a thread of its own, for all communicators in one
// group (one after the other they would wait for each other); when the caller has waited for long
// enough, thread and communicators are left to themselves, and whoever asks is told.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "core/cuda/communicator.h"

namespace tutti::cuda {
namespace {

// How long closing the plugin waits for aborts that hang.
constexpr auto kLastPatience = std::chrono::milliseconds(200);

// A thread with all signals blocked but those of its own faults.
template <class Body>
std::thread QuietThread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    sigdelset(&all, fault);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread.native_handle(), "tutti-nccl-end");
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

// What is quarantined when its plugin goes: it may still be written to.
std::vector<std::unique_ptr<HangingAbort>>& Forsaken() {
  static auto* const forsaken = new std::vector<std::unique_ptr<HangingAbort>>;
  return *forsaken;
}
std::mutex forsaken_mutex;  // guards it

}  // namespace

tutti_status* AbortAll(tutti_plugin* plugin,
                       std::vector<std::shared_ptr<CommunicatorState>> communicators,
                       const tutti_plugin_wait* wait) {
  auto abort = std::make_unique<HangingAbort>();
  abort->progress = std::make_shared<HangingAbort::Progress>();
  std::vector<nccl::Comm> handles;
  tutti_status* stopped = nullptr;
  for (const auto& communicator : communicators) {
    // From here on its own thread does not get it into NCCL's hands.
    const bool claimed = [&] {
      if (stopped != nullptr) return false;
      bool taken = false;
      stopped = AskUntil(wait, [&](tutti_status**) {
        const std::unique_lock lock(communicator->mutex, std::try_to_lock);
        if (!lock.owns_lock() || communicator->in_group) return false;
        if (communicator->state != TUTTI_PLUGIN_COMMUNICATOR_ABORTED) {
          communicator->state = TUTTI_PLUGIN_COMMUNICATOR_ABORTED;
          // What is not made yet ends with the one that it is made of.
          if (communicator->settled && communicator->comm != nullptr) {
            handles.push_back(std::exchange(communicator->comm, nullptr));
          }
          taken = true;
        }
        return true;
      });
      return taken;
    }();
    if (claimed || stopped != nullptr) abort->communicators.push_back(communicator);
    if (!claimed && stopped != nullptr) ++abort->unclaimed;
    communicator->state = TUTTI_PLUGIN_COMMUNICATOR_ABORTED;
  }
  const auto progress = abort->progress;
  if (handles.empty() && stopped == nullptr) return nullptr;
  abort->thread = QuietThread([library = plugin->communicators->library, handles, progress] {
    nccl::Outcome outcome = nccl::kSuccess;
    if (!handles.empty()) {
      const auto keep = [&](nccl::Outcome one) {
        if (one != nccl::kSuccess && one != nccl::kInProgress) outcome = one;
      };
      keep(library.GroupStart());
      for (const nccl::Comm handle : handles) keep(library.CommAbort(handle));
      keep(library.GroupEnd());
    }
    const std::lock_guard lock(progress->mutex);
    progress->outcome = outcome;
    progress->done = true;
  });
  const auto is_done = [&] {
    const std::lock_guard lock(progress->mutex);
    return progress->done;
  };
  if (stopped == nullptr) {
    stopped = AskUntil(wait, [&](tutti_status**) { return is_done(); });
  }
  if (stopped == nullptr) {
    abort->thread.join();
    return progress->outcome == nccl::kSuccess
               ? nullptr
               : FailOfNccl(plugin, communicators.front()->device, progress->outcome, nullptr,
                            "aborting " + NameOf(*communicators.front()));
  }
  const std::string line =
      "aborting " + NameOf(*communicators.front()) +
      (communicators.size() > 1
           ? " and " + std::to_string(communicators.size() - 1) + " more communicators"
           : "") +
      " hangs in NCCL: they are left alone, with what they hold of their devices' memory, until "
      "the process ends; start it again when that is too much";
  plugin->host->log(plugin->host->context, 3, line.c_str());
  plugin->host->release_status(plugin->host->context, stopped);
  {
    Communicators& all = *plugin->communicators;
    const std::lock_guard lock(all.mutex);
    all.hanging.push_back(std::move(abort));
  }
  return plugin->Fail(TUTTI_DEADLINE_EXCEEDED, line);
}

tutti_status* Abort(tutti_plugin* plugin, tutti_plugin_communicator* const* communicators,
                    uint64_t count, const tutti_plugin_wait* wait) {
  return Guarded(plugin, [&]() -> tutti_status* {
    std::vector<std::shared_ptr<CommunicatorState>> states;
    if (communicators == nullptr) {
      Communicators& all = *plugin->communicators;
      const std::lock_guard lock(all.mutex);
      for (const auto& one : all.alive) {
        if (auto state = one.lock()) states.push_back(std::move(state));
      }
    } else {
      for (uint64_t i = 0; i < count; ++i) states.push_back(communicators[i]->state);
    }
    // Those that are through already have nothing to end.
    std::erase_if(states, [](const auto& state) {
      return state->state == TUTTI_PLUGIN_COMMUNICATOR_FINALIZED ||
             state->state == TUTTI_PLUGIN_COMMUNICATOR_ABORTED;
    });
    return states.empty() ? nullptr : AbortAll(plugin, std::move(states), wait);
  });
}

int32_t NumQuarantined(tutti_plugin* plugin) {
  Communicators& all = *plugin->communicators;
  const std::lock_guard lock(all.mutex);
  int32_t count = 0;
  for (auto& hanging : all.hanging) {
    const std::lock_guard own(hanging->progress->mutex);
    count += hanging->progress->done ? hanging->unclaimed
                                     : static_cast<int32_t>(hanging->communicators.size());
  }
  return count;
}

void CloseCommunicators(tutti_plugin* plugin) {
  const auto end = std::chrono::steady_clock::now() + kLastPatience;
  for (auto& hanging : plugin->communicators->hanging) {
    const auto is_done = [&] {
      const std::lock_guard lock(hanging->progress->mutex);
      return hanging->progress->done;
    };
    while (!is_done() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (is_done()) {
      hanging->thread.join();
    } else {
      // It holds nothing of the plugin's.
      hanging->thread.detach();
      const std::lock_guard lock(forsaken_mutex);
      Forsaken().push_back(std::move(hanging));
    }
  }
}

}  // namespace tutti::cuda

// CheckpointManager: the checkpoints of one directory, of which the last few stay.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<CheckpointManager> manager,
//                          CheckpointManager::Create(checkpoint, "run", {.max_to_keep = 3}));
//   TUTTI_ASSIGN_OR_RETURN(auto restored, manager->RestoreLatest(options));
//   for (int64_t step = restored ? restored->step + 1 : 0; step < 1000; ++step) {
//     ...
//     TUTTI_RETURN_IF_ERROR(manager->Save(step, options).status());   // run/ckpt-<step>
//   }
//
// The latest checkpoint is the one that was saved last, whatever its step. One that is damaged is
// an error that names the file, never passed over for an older one. What a killed program left half
// written has no manifest, so it does not exist; the next Save removes it, and nothing that a save
// has not made: what else lies in the directory stays. One program at a time saves into a
// directory.
#ifndef TUTTI_CORE_CHECKPOINT_CHECKPOINT_MANAGER_H_
#define TUTTI_CORE_CHECKPOINT_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"

namespace tutti {

struct CheckpointManagerOptions {
  int64_t max_to_keep = 5;    // 0: all
  std::string name = "ckpt";  // checkpoints are <directory>/<name>-<step>
};

class CheckpointManager final : public RefCounted {
 public:
  struct Restored {
    std::string prefix;
    int64_t step = 0;
  };

  // Touches nothing on the disk. INVALID_ARGUMENT for an empty directory, a negative max_to_keep, a
  // name that is no part of a path.
  static Result<Ref<CheckpointManager>> Create(Ref<Checkpoint> checkpoint, std::string directory,
                                               CheckpointManagerOptions options);

  // Gives the prefix. A step that is there already is replaced. All workers call it.
  Result<std::string> Save(int64_t step, const CallOptions& call);
  // None, with success, when there is no checkpoint. Worker 0 chooses; all workers call it.
  Result<std::optional<Restored>> RestoreLatest(const CallOptions& call);

  // As this worker's directory is now; the oldest first.
  Result<std::optional<Restored>> Latest() const;
  Result<std::vector<Restored>> List() const;

  const std::string& directory() const { return directory_; }
  const Ref<Checkpoint>& checkpoint() const { return checkpoint_; }
  const CheckpointManagerOptions& options() const { return options_; }

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  struct Found {
    int64_t step;
    Result<Manifest> manifest;
  };

  CheckpointManager(Ref<Checkpoint> checkpoint, std::string directory,
                    CheckpointManagerOptions options);
  ~CheckpointManager() override;

  std::string PrefixOf(int64_t step) const;
  // By the order in which they were saved; those whose manifest cannot be read come last.
  Result<std::vector<Found>> Find() const;
  Result<int64_t> Prepare();
  void RemoveOld(int64_t saved_step);
  void Remove(const std::string& name) const;
  bool IsMarked(const std::string& name) const;

  const Ref<Checkpoint> checkpoint_;
  const std::string directory_;
  const CheckpointManagerOptions options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_CHECKPOINT_MANAGER_H_

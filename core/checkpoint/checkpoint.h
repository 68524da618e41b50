// Checkpoint: named objects that are saved and restored together.
//
//   Ref<Checkpoint> checkpoint = Checkpoint::Create(environment, {});
//   checkpoint->Add("weights", weights.get(), weights, Checkpoint::Part::kShared);
//   TUTTI_RETURN_IF_ERROR(checkpoint->Save("run/ckpt-7", 7, options).status());
//   TUTTI_RETURN_IF_ERROR(checkpoint->Restore("run/ckpt-7", options).status());
//
// A prefix names the files of manifest.h. Shared objects are equal on all workers of the team, and
// worker 0 writes them; what each worker has to itself (where it stands in its data) it writes
// itself. The directory is one that all workers see. Nothing counts until worker 0 has written the
// manifest, which it does when all have reported that their files are on the disk.
//
// With a team every worker makes the same calls in the same order, with the same objects: saving an
// object may involve the other workers. So objects are saved and restored in the order of their
// names, byte by byte, in whatever order they were added: a program's containers have orders of
// their own, and other languages other ones. A failure of one worker fails the call on all.
//
// Restore leaves everything as it was when it fails: all is read and found to fit, on all workers,
// before the first object changes, and an object that then refuses makes all take back what they
// held. Meanwhile memory holds the objects' values twice more. Names in the file that no object has
// are passed over.
//
// A checkpoint of another number of workers can be restored: what each worker had to itself comes
// from worker 0 then, and an object that cannot go on from there refuses it.
//
// Threads: any; a second call while one is running is FAILED_PRECONDITION.
#ifndef TUTTI_CORE_CHECKPOINT_CHECKPOINT_H_
#define TUTTI_CORE_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/checkpoint/checkpoint_team.h"
#include "core/checkpoint/manifest.h"
#include "core/tensor/saveable.h"

namespace tutti {

class MemoryTensors;

class Checkpoint final : public RefCounted {
 public:
  enum class Part { kShared, kPerWorker };

  static Ref<Checkpoint> Create(Ref<Environment> environment, CheckpointTeam team);

  // `keeper` keeps `object` alive. INVALID_ARGUMENT for an empty name, ALREADY_EXISTS for one that
  // is taken.
  Status Add(std::string_view name, Saveable* object, Ref<const RefCounted> keeper, Part part);

  // `prepare` is called on worker 0 before anything is written, and gives the save_number.
  using Prepare = std::function<Result<int64_t>()>;
  Result<Manifest> Save(const std::string& prefix, int64_t step, const CallOptions& call,
                        const Prepare& prepare = nullptr);
  // NOT_FOUND when there is no such checkpoint or no value for an object; INVALID_ARGUMENT for
  // another dtype or shape; DATA_LOSS for a file that is missing, cut off or changed.
  Result<Manifest> Restore(const std::string& prefix, const CallOptions& call);

  // One safetensors file and nothing else, for other programs: the shared objects, and with one
  // worker also those that it has to itself. With several workers that have something to themselves
  // FAILED_PRECONDITION.
  Status WriteFile(const std::string& path, const CallOptions& call);
  Status ReadFile(const std::string& path, const CallOptions& call);

  const CheckpointTeam& team() const { return team_; }
  Environment& environment() const { return *environment_; }

  // The workers tell each other how things went, and something each: all get all texts, or all get
  // the failure of the first that failed, which says which worker it was.
  Result<std::vector<std::string>> Meet(std::string_view where, Status status, std::string text,
                                        const CallOptions& call) const;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  struct Entry {
    std::string name;
    Saveable* object;
    Ref<const RefCounted> keeper;
    Part part;
  };
  class Busy;
  struct Values;
  struct Written;

  Checkpoint(Ref<Environment> environment, CheckpointTeam team);
  ~Checkpoint() override;

  Result<std::vector<Entry>> Enter(const char* what);
  void Leave();
  bool HasOwn(const std::vector<Entry>& entries) const;
  // All objects into the sinks of their parts, on all workers, as saving may involve them all.
  static Status Collect(const std::vector<Entry>& entries, SaveSink* shared, SaveSink* own);
  static Status Apply(const std::vector<Entry>& entries, Values* values);
  Status WriteParts(const std::vector<Entry>& entries, const std::string& prefix,
                    int64_t generation, const CallOptions& call, Written* written);
  Status Commit(const std::string& prefix, const std::vector<std::string>& reports,
                Manifest* manifest);
  void RemoveFiles(const std::string& prefix, const std::vector<std::string>& names) const;
  Status LoadCheckpoint(const std::string& prefix, const Manifest& manifest, const Values& now,
                        const CallOptions& call, Values* values) const;
  Status LoadFile(const std::string& path, const MemoryTensors& now, const CallOptions& call,
                  MemoryTensors* values) const;
  // What both kinds of restoring have in common: what `load` reads is applied, or nothing is.
  Status Replace(const std::vector<Entry>& entries, const CallOptions& call,
                 const std::function<Status(const Values& now, Values* values)>& load,
                 const std::function<std::string()>& fingerprint);

  const Ref<Environment> environment_;
  const CheckpointTeam team_;
  std::mutex mutex_;  // guards all below
  std::vector<Entry> entries_;  // sorted by name
  bool busy_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_CHECKPOINT_H_

// RecordedWrites: the files that a dataset function wants written. Nothing is iterated while such a
// function runs, so that writers which it makes only note what belongs into their files; the
// dataset that it gives is then one that writes them before it gives its first element
// (ops/after_writes_op.cc).
//
//   RecordedWrites writes;                        // from here on, on this thread
//   ... call the function ...
//   TUTTI_ASSIGN_OR_RETURN(dataset, std::move(writes).Before(dataset));
//
// Where nobody is there to do that, as where a dataset is only looked at, what was noted goes with
// the object.
#ifndef TUTTI_CORE_DATASET_EXEC_RECORDED_WRITES_H_
#define TUTTI_CORE_DATASET_EXEC_RECORDED_WRITES_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class Dataset;

// One file. Threads: any.
class RecordedWrite final : public RefCounted {
 public:
  RecordedWrite(std::string path, int64_t compression, int64_t compression_level)
      : path_(std::move(path)),
        compression_(compression),
        compression_level_(compression_level) {}

  // Its elements come behind those of what was added before. FAILED_PRECONDITION once the function
  // has returned, or the writer was closed.
  Status Add(Ref<const Dataset> dataset);
  // Nothing more is added.
  void Close();
  // It is not wanted after all.
  void Abandon();

 private:
  friend class RecordedWrites;

  const std::string path_;
  const int64_t compression_;
  const int64_t compression_level_;
  std::mutex mutex_;  // guards all below
  bool open_ = true;
  bool abandoned_ = false;
  std::vector<Ref<const Dataset>> datasets_;
};

// On the stack only; the innermost counts.
class RecordedWrites {
 public:
  RecordedWrites();
  ~RecordedWrites();
  RecordedWrites(const RecordedWrites&) = delete;
  RecordedWrites& operator=(const RecordedWrites&) = delete;

  // Of the function that the calling thread runs; null where there is none that gives a dataset.
  static RecordedWrites* Current() noexcept;
  void Add(Ref<RecordedWrite> write) { writes_.push_back(std::move(write)); }

  // The function has returned: `dataset` itself, or, where files are wanted, what writes them
  // before its first element. INVALID_ARGUMENT for a dataset of another runtime than its own.
  Result<Ref<const Dataset>> Before(Ref<const Dataset> dataset) &&;

 private:
  void End();

  RecordedWrites* const outer_;
  bool ended_ = false;
  std::vector<Ref<RecordedWrite>> writes_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_RECORDED_WRITES_H_

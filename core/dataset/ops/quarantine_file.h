// QuarantineFile: what on_error has left out of a pass, as a TFRecord file of tf.train.Examples:
//
//   quarantine/cause, /code   bytes: the error's message, and the name of its code
//   quarantine/node           bytes: the operation that refused the element
//   quarantine/element        int64: the element's number there
//   quarantine/file, /record  bytes, int64: where it was read from, if from a file
//   value, or image, box/0    the element that was refused, each leaf by its path, as make_example
//                             writes tensors; without what that has no form for
//
// The file is written whole each time, so that it can be read whenever it is looked at: at the
// first record, whenever there are twice as many, where a position is saved, and at the end. It is
// bounded: beyond kMostQuarantinedBytes records are counted and not kept.
#ifndef TUTTI_CORE_DATASET_OPS_QUARANTINE_FILE_H_
#define TUTTI_CORE_DATASET_OPS_QUARANTINE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/refused.h"

namespace tutti {

class Environment;

inline constexpr size_t kMostQuarantinedBytes = size_t{64} << 20;

// Threads: one at a time.
class QuarantineFile {
 public:
  QuarantineFile(Environment& environment, std::string path);
  ~QuarantineFile();
  QuarantineFile(const QuarantineFile&) = delete;
  QuarantineFile& operator=(const QuarantineFile&) = delete;

  // The error of the disk, which then is that of every later call.
  Status Add(const Status& failure);
  Status Flush();
  // Begins anew; the file stays until there is a record again.
  void Clear();

  int64_t size() const { return static_cast<int64_t>(records_.size()); }
  int64_t left_out() const { return left_out_; }
  // Goes on with the first `size` records of the file; with fewer, where it has fewer.
  void Reload(int64_t size);

 private:
  Environment& environment_;
  const std::string path_;
  const KeepsRefused keeps_;
  std::vector<std::string> records_;
  size_t bytes_ = 0;
  size_t written_ = 0;  // records of the file
  int64_t left_out_ = 0;
  Status error_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_QUARANTINE_FILE_H_

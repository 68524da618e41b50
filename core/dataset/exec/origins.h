// Origins: which records of which files the rows of a slab are, or were made of, for messages. Rows
// that lie one behind the other in a file are one run. What is not known, or came from no file, has
// no file; stages that make new rows of several leave it away.
#ifndef TUTTI_CORE_DATASET_EXEC_ORIGINS_H_
#define TUTTI_CORE_DATASET_EXEC_ORIGINS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace tutti {

// A record of a file, counted from 0; without a file nothing.
struct Origin {
  std::shared_ptr<const std::string> file;
  int64_t record = 0;

  // ` (record 3 of "train.tfrecord")`, or nothing.
  std::string ToString() const;
  // `status` with the details "source_file" and "source_record".
  Status About(Status status) const;
};

class Origins {
 public:
  // Of `rows` rows behind those that there are; the further ones are the next records.
  void Add(const Origin& first, int64_t rows);
  Origin Of(int64_t row) const;
  Origins Slice(int64_t begin, int64_t end) const;
  // No row's is known.
  bool empty() const { return runs_.empty(); }

 private:
  struct Run {
    int64_t begin = 0;  // its first row
    Origin first;
  };

  std::vector<Run> runs_;  // the first run that is needed has a file
  int64_t rows_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_ORIGINS_H_

// Origins: which records of which files the rows of a slab are, or were made of, for messages. Rows
// that lie one behind the other in a file are one run. A row that was made of several, as batches
// and windows are, lies among records of one file, from a first one to a last one. What is not
// known, or came from no file, or from several, has no file.
#ifndef TUTTI_CORE_DATASET_EXEC_ORIGINS_H_
#define TUTTI_CORE_DATASET_EXEC_ORIGINS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace tutti {

// A record of a file, counted from 0, or several in a row, among which it lies; without a file
// nothing.
struct Origin {
  std::shared_ptr<const std::string> file;
  int64_t record = 0;
  int64_t records = 1;

  // ` (record 3 of "train.tfrecord")`, ` (records 0 to 3 of ...)`, or nothing.
  std::string ToString() const;
  // `status` with the details "source_file" and "source_record", and, of several records, with
  // "source_last_record".
  Status About(Status status) const;
};

class Origins {
 public:
  // Of `rows` rows behind those that there are; the further ones are the next records, as many for
  // each.
  void Add(const Origin& first, int64_t rows);
  // Of `rows` rows that have these.
  void Append(const Origins& others, int64_t rows);
  Origin Of(int64_t row) const;
  // What is made of rows [begin, end), of which there are some: among which records of one file.
  Origin Among(int64_t begin, int64_t end) const;
  Origins Slice(int64_t begin, int64_t end) const;
  // No row's is known.
  bool empty() const { return runs_.empty(); }
  // What they take, one for all rows that lie one behind the other.
  size_t num_runs() const { return runs_.size(); }

 private:
  struct Run {
    int64_t begin = 0;  // its first row
    Origin first;

    Origin Of(int64_t row) const {
      return {first.file, first.record + (row - begin) * first.records, first.records};
    }
  };

  // The run in which a row is; runs_.end() where none is.
  std::vector<Run>::const_iterator Find(int64_t row) const;

  std::vector<Run> runs_;  // the first run that is needed has a file
  int64_t rows_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_ORIGINS_H_

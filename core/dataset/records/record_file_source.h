// RecordFileSource: the stage that reads the records of the files which its input names, one file
// after the other; the formats (TFRecord, fixed length, text) are subclasses that open a reader.
// parallel_reads.h has several such stages at a time.
//
// A slab's rows are byte strings that lie in the blocks the file was read into; its tensor keeps
// those alive. The state is the names of the files still to be read from the input's last element,
// and file, offset and record index in the file being read: restoring seeks there.
#ifndef TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_SOURCE_H_
#define TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"
#include "core/dataset/records/file_names.h"
#include "core/dataset/records/parallel_reads.h"
#include "core/dataset/records/record_file_reader.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

class Disk;

class RecordFileSource : public Stage {
 public:
  RecordFileSource(const Node& node, const ExecContext& context, StageInputs inputs);
  ~RecordFileSource() override;

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) final;
  Status Restart(const CallOptions& options) final;
  Status Save(StateWriter* writer) final;
  Status Restore(StateReader* reader, const CallOptions& options) final;
  std::string_view FileOfLast() const final;

 protected:
  virtual Result<std::unique_ptr<RecordFileReader>> Open(Disk& disk, const std::string& path,
                                                         const RecordFileOptions& options) = 0;

 private:
  void Forget();
  Status OpenFile(const std::string& path);
  // The rows of one reader; none when it is at its end.
  void ReadRows(const Demand& demand, Slab* slab);
  Status Pack(std::vector<BytesView> records, std::vector<Ref<const RefCounted>> blocks,
              Slab* slab) const;

  const ExecContext& context_;
  FileNames names_;  // of the files that have not been opened
  std::unique_ptr<RecordFileReader> reader_;
};

// ---- What the formats' ops share. ----

// The attributes "compression", "buffer_size" and "num_parallel_reads" in order: INVALID_ARGUMENT
// otherwise; and an input whose elements, as far as they are known, are names of files.
Status CheckRecordFileNode(const Node& node);
RecordFileOptions RecordFileOptionsOf(const Node& node);
// The stage of a reader whose Source is a RecordFileSource.
template <class Source>
Result<std::unique_ptr<Stage>> MakeRecordFileStage(const Node& node, const ExecContext& context,
                                                   StageInputs inputs) {
  if (HasParallelReads(node)) return MakeParallelReadsStage(node, context, std::move(inputs));
  return std::unique_ptr<Stage>(std::make_unique<Source>(node, context, std::move(inputs)));
}
// A scalar byte string.
Result<Ref<const ElementSpec>> RecordElementSpec(const Node& node);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_SOURCE_H_

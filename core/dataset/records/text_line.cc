#include "core/dataset/records/text_line.h"

#include <memory>
#include <utility>

#include "core/dataset/graph/dataset.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/record_file_source.h"
#include "core/dataset/records/text_line_reader.h"
#include "core/function/function.h"

namespace tutti {
namespace {

class TextLineSource final : public RecordFileSource {
 public:
  using RecordFileSource::RecordFileSource;

 protected:
  Result<std::unique_ptr<RecordFileReader>> Open(Disk& disk, const std::string& path,
                                                 const RecordFileOptions& options) override {
    return OpenTextLineReader(disk, path, options);
  }
};

}  // namespace

constinit const OpTraits kTextLineOp = {
    .name = "text_line",
    .attributes = {{"compression", static_cast<int64_t>(RecordCompression::kNone)},
                   {"buffer_size", 0, AttributeRole::kTuning},
                   {"num_parallel_reads", 0}},
    .num_inputs = 1,
    .row_ratio = RowRatio::kExpanding,
    .can_seek = true,
    .is_reader = true,
    .check = CheckRecordFileNode,
    .cardinality = [](const Node&) { return kUnknownCardinality; },
    .element_spec = RecordElementSpec,
    .make_stage = MakeRecordFileStage<TextLineSource>,
};

Result<Ref<Dataset>> MakeTextLineDataset(const Dataset& files, TextLineOptions options) {
  Attributes attributes;
  attributes.Set("compression", static_cast<int64_t>(options.compression));
  attributes.Set("buffer_size", options.buffer_bytes);
  attributes.Set("num_parallel_reads", options.num_parallel_reads);
  return Dataset::Make(files.environment(), kTextLineOp.name, std::move(options.name),
                       std::move(attributes), {Ref<Dataset>::Retain(const_cast<Dataset*>(&files))});
}

Result<Ref<Dataset>> MakeTextLineDataset(const Ref<DatasetEnvironment>& environment,
                                         std::span<const std::string> paths,
                                         TextLineOptions options) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> files, MakeFileNamesDataset(environment, paths));
  return MakeTextLineDataset(*files, std::move(options));
}

}  // namespace tutti

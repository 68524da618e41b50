#include "core/dataset/records/fixed_length_record.h"

#include <memory>
#include <utility>

#include "core/dataset/graph/dataset.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/record_file_source.h"
#include "core/function/function.h"

namespace tutti {
namespace {

FixedLengthRecordFormat FormatOf(const Node& node) {
  return {.record_bytes = node.attributes().Int("record_bytes"),
          .header_bytes = node.attributes().Int("header_bytes"),
          .footer_bytes = node.attributes().Int("footer_bytes")};
}

class FixedLengthRecordSource final : public RecordFileSource {
 public:
  using RecordFileSource::RecordFileSource;

 protected:
  Result<std::unique_ptr<RecordFileReader>> Open(Disk& disk, const std::string& path,
                                                 const RecordFileOptions& options) override {
    return OpenFixedLengthRecordReader(disk, path, FormatOf(node()), options);
  }
};

}  // namespace

constinit const OpTraits kFixedLengthRecordOp = {
    .name = "fixed_length_record",
    .attributes = {{"record_bytes"},
                   {"header_bytes", 0},
                   {"footer_bytes", 0},
                   {"compression", static_cast<int64_t>(RecordCompression::kNone)},
                   {"buffer_size", 0, AttributeRole::kTuning},
                   {"num_parallel_reads", 0}},
    .num_inputs = 1,
    .row_ratio = RowRatio::kExpanding,
    .can_seek = true,
    .is_reader = true,
    .check =
        [](const Node& node) {
          Status status = FormatOf(node).Check();
          return status.ok() ? CheckRecordFileNode(node) : status;
        },
    .cardinality = [](const Node&) { return kUnknownCardinality; },
    .element_spec = RecordElementSpec,
    .make_stage = MakeRecordFileStage<FixedLengthRecordSource>,
};

Result<Ref<Dataset>> MakeFixedLengthRecordDataset(const Dataset& files,
                                                  const FixedLengthRecordFormat& format,
                                                  FixedLengthRecordOptions options) {
  Attributes attributes;
  attributes.Set("record_bytes", format.record_bytes);
  attributes.Set("header_bytes", format.header_bytes);
  attributes.Set("footer_bytes", format.footer_bytes);
  attributes.Set("compression", static_cast<int64_t>(options.compression));
  attributes.Set("buffer_size", options.buffer_bytes);
  attributes.Set("num_parallel_reads", options.num_parallel_reads);
  return Dataset::Make(files.environment(), kFixedLengthRecordOp.name, std::move(options.name),
                       std::move(attributes), {Ref<Dataset>::Retain(const_cast<Dataset*>(&files))});
}

Result<Ref<Dataset>> MakeFixedLengthRecordDataset(const Ref<DatasetEnvironment>& environment,
                                                  std::span<const std::string> paths,
                                                  const FixedLengthRecordFormat& format,
                                                  FixedLengthRecordOptions options) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> files, MakeFileNamesDataset(environment, paths));
  return MakeFixedLengthRecordDataset(*files, format, std::move(options));
}

}  // namespace tutti

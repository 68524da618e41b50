#include "core/dataset/records/record_file_source.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/disk.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// A slab takes blocks until they have this many bytes: enough rows for a batch in one piece, few
// enough to stay in the processor's cache.
constexpr size_t kSlabBytes = 1024 * 1024;

constexpr int64_t kMaxBufferBytes = int64_t{1} << 40;

// What a slab's records lie in, when that is more than one block.
class BlockList final : public RefCounted {
 public:
  explicit BlockList(std::vector<Ref<const RefCounted>> blocks) : blocks_(std::move(blocks)) {}

 private:
  const std::vector<Ref<const RefCounted>> blocks_;
};

}  // namespace

RecordFileSource::RecordFileSource(const Node& node, const ExecContext& context, StageInputs inputs)
    : Stage(node, std::move(inputs)), context_(context), names_(this->node(), input()) {}

RecordFileSource::~RecordFileSource() = default;

void RecordFileSource::Next(const Demand& demand, const CallOptions& options, Slab* slab) {
  const Clock& clock = context_.environment->environment().clock();
  while (slab->rows == 0 && slab->status.ok() && !slab->end) {
    if (reader_ != nullptr) {
      ReadRows(demand, slab);
      if (slab->rows == 0 && slab->status.ok()) reader_.reset();
      continue;
    }
    slab->status = CheckCallOptions(options, clock, node().label());
    if (!slab->status.ok()) return;
    if (names_.empty()) {
      names_.Pull(demand, options, slab);
    } else {
      slab->status = OpenFile(names_.Take());
    }
  }
}

std::string_view RecordFileSource::FileOfLast() const {
  return reader_ == nullptr ? std::string_view() : std::string_view(reader_->path());
}

Status RecordFileSource::OpenFile(const std::string& path) {
  RecordFileOptions options = RecordFileOptionsOf(node());
  options.account = Ref<MemoryAccount>::Retain(context_.account);
  Result<std::unique_ptr<RecordFileReader>> reader =
      Open(context_.environment->environment().disk(), path, options);
  // All its records are missing.
  if (!reader.ok()) return WithLoss(std::move(reader).status(), Loss::kMany);
  reader_ = std::move(reader).value();
  return OkStatus();
}

void RecordFileSource::ReadRows(const Demand& demand, Slab* slab) {
  const auto max_rows = static_cast<size_t>(std::min(demand.max_rows, kMaxSlabRows));
  std::vector<BytesView> records;
  records.reserve(max_rows);
  std::vector<Ref<const RefCounted>> blocks;
  size_t block_bytes = 0;
  while (records.size() < max_rows && block_bytes < kSlabBytes) {
    const size_t before = records.size();
    slab->status = reader_->Read(max_rows - before, &records);
    if (records.size() == before) {
      if (!slab->status.ok() && reader_->gave_up()) {
        slab->status = WithLoss(std::move(slab->status), Loss::kMany);
      }
      break;
    }
    if (blocks.empty() || blocks.back().get() != reader_->block().get()) {
      blocks.push_back(reader_->block());
      block_bytes += reader_->block()->bytes();
    }
  }
  slab->rows = static_cast<int64_t>(records.size());
  if (slab->rows == 0 || demand.count_only) return;
  Status packed = Pack(std::move(records), std::move(blocks), slab);
  if (!packed.ok()) {
    slab->rows = 0;
    slab->status = std::move(packed);
  }
}

Status RecordFileSource::Pack(std::vector<BytesView> records,
                              std::vector<Ref<const RefCounted>> blocks, Slab* slab) const {
  Ref<const RefCounted> payload =
      blocks.size() == 1 ? std::move(blocks[0]) : MakeRef<BlockList>(std::move(blocks));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> rows,
                         Tensor::FromBytesViews(Shape({slab->rows}), records, std::move(payload)));
  slab->tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  slab->columns.push_back(Column::Dense(std::move(rows)));
  return OkStatus();
}

void RecordFileSource::Forget() {
  names_.Clear();
  reader_.reset();
}

Status RecordFileSource::Restart(const CallOptions& options) {
  Forget();
  return Stage::Restart(options);
}

Status RecordFileSource::Save(StateWriter* writer) {
  writer->Section(node().op().name);
  names_.SaveNames(writer);
  writer->Int(reader_ != nullptr);
  if (reader_ != nullptr) {
    const RecordFilePosition position = reader_->position();
    writer->Bytes(reader_->path());
    writer->Int(static_cast<int64_t>(position.offset));
    writer->Int(static_cast<int64_t>(position.index));
    writer->Int(reader_->gave_up());
  }
  TUTTI_RETURN_IF_ERROR(names_.SaveInput(writer));
  return Stage::Save(writer);
}

Status RecordFileSource::Restore(StateReader* reader, const CallOptions& options) {
  Forget();
  reader->Section(node().op().name);
  names_.RestoreNames(reader);
  const bool has_file = reader->IntIn(0, 1) != 0;
  if (has_file) {
    const std::string path(reader->Bytes());
    RecordFilePosition position;
    position.offset = static_cast<uint64_t>(reader->IntIn(0, INT64_MAX));
    position.index = static_cast<uint64_t>(reader->IntIn(0, INT64_MAX));
    const bool gave_up = reader->IntIn(0, 1) != 0;
    TUTTI_RETURN_IF_ERROR(reader->status());
    // A file that nothing more can be had from need not be there any more.
    if (!gave_up) {
      TUTTI_RETURN_IF_ERROR(OpenFile(path));
      TUTTI_RETURN_IF_ERROR(reader_->Seek(position));
    }
  }
  names_.RestoreInput(reader);
  TUTTI_RETURN_IF_ERROR(reader->status());
  return Stage::Restore(reader, options);
}

Status CheckRecordFileNode(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckRecordCompression(
      static_cast<RecordCompression>(node.attributes().Int("compression")), node.label()));
  const int64_t buffer_bytes = node.attributes().Int("buffer_size");
  if (buffer_bytes < 0 || buffer_bytes > kMaxBufferBytes) {
    return InvalidArgument(
               "{}: buffer_size must be a positive number of bytes (0 for the default, "
               "{}), got {}",
               node.label(), kDefaultRecordBufferBytes, buffer_bytes)
        .With("buffer_size", buffer_bytes);
  }
  const int64_t parallel = node.attributes().Int("num_parallel_reads");
  if (parallel < kAutotune) {
    return InvalidArgument(
               "{}: num_parallel_reads must be a number of files, 0 for one after another or {} "
               "for AUTOTUNE, got {}",
               node.label(), kAutotune, parallel)
        .With("num_parallel_reads", parallel);
  }
  const Ref<const ElementSpec> files = node.input().element_spec();
  if (files == nullptr) return OkStatus();
  const bool fits = files->num_leaves() == 1 && files->tree().is_leaf() &&
                    files->leaf(0).is_tensor() && files->leaf(0).dtype == DType::kBytes &&
                    (!files->leaf(0).shape.has_rank() || files->leaf(0).shape.rank() <= 1);
  if (fits) return OkStatus();
  return InvalidArgument(
      "{}: its input should name files (elements bytes[] or bytes[n]) and has "
      "elements {}",
      node.label(), files->ToString());
}

RecordFileOptions RecordFileOptionsOf(const Node& node) {
  RecordFileOptions options;
  options.compression = static_cast<RecordCompression>(node.attributes().Int("compression"));
  const int64_t buffer_bytes = node.attributes().Int("buffer_size");
  if (buffer_bytes > 0) options.buffer_bytes = static_cast<size_t>(buffer_bytes);
  return options;
}

Result<Ref<const ElementSpec>> RecordElementSpec(const Node&) {
  return ElementSpec::OfTensor(DType::kBytes, PartialShape::Scalar());
}

}  // namespace tutti

#include "core/dataset/ops/quarantine_file.h"

#include <memory>
#include <utility>
#include <variant>

#include "core/base/disk.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/text.h"
#include "core/dataset/example/make_example.h"
#include "core/dataset/records/tf_record_reader.h"
#include "core/dataset/records/tf_record_writer.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

namespace {

using Features = std::vector<std::pair<std::string, Ref<Value>>>;

void AddDetail(const Status& failure, std::string_view detail, std::string key,
               Features* features) {
  const StatusDetail* const found = failure.FindDetail(detail);
  if (found == nullptr) return;
  if (const auto* number = std::get_if<int64_t>(&found->value)) {
    features->emplace_back(std::move(key), Value::OfTensor(Tensor::Scalar<int64_t>(*number)));
  } else if (const auto* text = std::get_if<std::string>(&found->value)) {
    features->emplace_back(std::move(key), Value::OfTensor(Tensor::Bytes(*text)));
  }
}

std::string KeyOfLeaf(const Path& path) {
  std::string key;
  for (const PathStep& step : path) {
    if (!key.empty()) key += '/';
    key += step.is_key() ? step.key() : Format("{}", step.index());
  }
  return key.empty() ? std::string("value") : key;
}

// Examples that follow each other are one, with the features of all.
std::string RecordOf(const Status& failure) {
  Features features;
  features.emplace_back("quarantine/cause",
                        Value::OfTensor(Tensor::Bytes(std::string(failure.message()))));
  features.emplace_back("quarantine/code",
                        Value::OfTensor(Tensor::Bytes(StatusCodeName(failure.code()))));
  AddDetail(failure, "node", "quarantine/node", &features);
  AddDetail(failure, "index", "quarantine/element", &features);
  AddDetail(failure, "source_file", "quarantine/file", &features);
  AddDetail(failure, "source_record", "quarantine/record", &features);
  std::string record = MakeExample(*Value::Dict(std::move(features)).value()).value();
  const Ref<Value> element = RefusedElement(failure);
  if (!element) return record;
  for (size_t i = 0; i < element->num_leaves(); ++i) {
    if (!element->leaf(i).is_tensor()) continue;
    Features one;
    one.emplace_back(KeyOfLeaf(element->spec().LeafPath(i)),
                     Value::OfTensor(element->leaf(i).tensor_ref()));
    const Result<std::string> written = MakeExample(*Value::Dict(std::move(one)).value());
    if (written.ok()) record += *written;
  }
  return record;
}

}  // namespace

QuarantineFile::QuarantineFile(Environment& environment, std::string path)
    : environment_(environment), path_(std::move(path)) {}

QuarantineFile::~QuarantineFile() {
  (void)CatchExceptions("quarantine", [&] { return Flush(); });
}

Status QuarantineFile::Add(const Status& failure) {
  TUTTI_RETURN_IF_ERROR(error_);
  std::string record = RecordOf(failure);
  if (bytes_ + record.size() > kMostQuarantinedBytes) {
    ++left_out_;
    return OkStatus();
  }
  bytes_ += record.size();
  records_.push_back(std::move(record));
  return records_.size() >= 2 * written_ ? Flush() : OkStatus();
}

Status QuarantineFile::Flush() {
  if (!error_.ok() || written_ == records_.size()) return error_;
  const auto write = [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<TfRecordWriter> writer,
        TfRecordWriter::Create(Ref<Environment>::Retain(&environment_), path_, {}));
    for (const std::string& record : records_) TUTTI_RETURN_IF_ERROR(writer->Write(record));
    return writer->Finish();
  };
  error_ = write().WithPrefix("the quarantine cannot be written");
  if (error_.ok()) written_ = records_.size();
  return error_;
}

void QuarantineFile::Clear() {
  records_.clear();
  bytes_ = 0;
  written_ = 0;
  left_out_ = 0;
  error_ = OkStatus();
}

void QuarantineFile::Reload(int64_t size) {
  Clear();
  Result<std::unique_ptr<RecordFileReader>> reader =
      OpenTfRecordReader(environment_.disk(), path_, {});
  if (!reader.ok()) return;
  std::vector<BytesView> views;
  while (this->size() < size) {
    views.clear();
    const Status status = (*reader)->Read(static_cast<size_t>(size - this->size()), &views);
    if (!status.ok() || views.empty()) break;
    for (const BytesView& view : views) {
      bytes_ += view.size;
      records_.emplace_back(view.text());
    }
  }
  // What is behind them comes again.
  written_ = 0;
}

}  // namespace tutti

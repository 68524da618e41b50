#include "core/collective/call/call_header_wire.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/collective/call/wire_bytes.h"
#include "core/tensor/shape.h"

namespace tutti {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr size_t kMaxDetails = 24;
constexpr size_t kMaxKeyBytes = 64;
constexpr size_t kMaxTextBytes = 512;
constexpr size_t kMaxCauses = 2;
// A signature takes two bytes or more, which bounds what a header can claim to hold.
constexpr size_t kLeastSignatureBytes = 2;
// Flags of a header. Hints follow them where there are any, and what is called on GPUs.
constexpr int kUnevenFlag = 1;
constexpr int kHintedFlag = 2;
constexpr int kOnGpusFlag = 4;

enum class DetailKind : uint8_t { kInteger = 0, kDouble = 1, kText = 2 };

void AppendSignature(const TensorSignature& signature, WireWriter* writer) {
  writer->Put(static_cast<uint8_t>(signature.dtype));
  writer->Put(static_cast<uint8_t>(signature.dims.size()));
  for (int64_t dim : signature.dims) writer->Put(dim);
}

Status ParseSignature(WireReader* reader, TensorSignature* signature) {
  signature->dtype = static_cast<DType>(reader->Take<uint8_t>());
  const size_t rank = reader->Take<uint8_t>();
  if (!IsValid(signature->dtype) || rank > Shape::kMaxRank) {
    return DataLoss("a tensor of dtype number {} and rank {}", static_cast<int>(signature->dtype),
                    rank);
  }
  Dims dims(rank, 0);
  for (size_t i = 0; i < rank; ++i) dims[i] = reader->Take<int64_t>();
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), rank));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(),
                             static_cast<int64_t>(ItemSize(signature->dtype)), &bytes)) {
    return DataLoss("a tensor of {} elements", shape.num_elements());
  }
  signature->dims = std::move(dims);
  return OkStatus();
}

void AppendDetail(const StatusDetail& detail, WireWriter* writer) {
  writer->PutText(std::string_view(detail.key).substr(0, kMaxKeyBytes));
  if (const auto* integer = std::get_if<int64_t>(&detail.value)) {
    writer->Put(static_cast<uint8_t>(DetailKind::kInteger));
    writer->Put(*integer);
  } else if (const auto* number = std::get_if<double>(&detail.value)) {
    writer->Put(static_cast<uint8_t>(DetailKind::kDouble));
    writer->Put(*number);
  } else {
    writer->Put(static_cast<uint8_t>(DetailKind::kText));
    writer->PutText(std::string_view(std::get<std::string>(detail.value)).substr(0, kMaxTextBytes));
  }
}

Status ParseDetail(WireReader* reader, Status status) {
  const std::string key(reader->TakeText());
  switch (static_cast<DetailKind>(reader->Take<uint8_t>())) {
    case DetailKind::kInteger: return std::move(status).With(key, reader->Take<int64_t>());
    case DetailKind::kDouble: return std::move(status).With(key, reader->Take<double>());
    case DetailKind::kText: return std::move(status).With(key, reader->TakeText());
  }
  return status;
}

}  // namespace

void AppendCallHeader(const CallHeader& header, std::string* out) {
  WireWriter writer(out);
  writer.Put(static_cast<uint8_t>(header.op));
  writer.Put(static_cast<uint8_t>(header.reduction));
  writer.Put(header.root);
  writer.Put(header.axis);
  const bool hinted = header.hints.any();
  const bool on_gpus = header.gpu_op != CollectiveOp::kNone;
  writer.Put(static_cast<uint8_t>((header.uneven ? kUnevenFlag : 0) | (hinted ? kHintedFlag : 0) |
                                  (on_gpus ? kOnGpusFlag : 0)));
  if (hinted) {
    writer.Put(static_cast<uint8_t>(header.hints.implementation));
    writer.Put(header.hints.bytes_per_pack);
  }
  if (on_gpus) writer.Put(static_cast<uint8_t>(header.gpu_op));
  writer.Put(static_cast<uint32_t>(header.num_tensors));
  for (size_t i = 0; i < header.num_tensors; ++i) AppendSignature(header.tensor(i), &writer);
}

Result<CallHeader> ParseCallHeader(std::string_view bytes) {
  WireReader reader(bytes);
  CallHeader header;
  header.op = static_cast<CollectiveOp>(reader.Take<uint8_t>());
  header.reduction = static_cast<ReduceOp>(reader.Take<uint8_t>());
  header.root = reader.Take<int64_t>();
  header.axis = reader.Take<int64_t>();
  const int flags = reader.Take<uint8_t>();
  header.uneven = (flags & kUnevenFlag) != 0;
  if ((flags & kHintedFlag) != 0) {
    header.hints.implementation =
        static_cast<CommunicationImplementation>(reader.Take<uint8_t>());
    header.hints.bytes_per_pack = reader.Take<int64_t>();
    if (!CheckHints(header.hints, "a call").ok() || !header.hints.any()) {
      return DataLoss("a call of implementation {} and {} bytes per pack",
                      static_cast<int>(header.hints.implementation),
                      header.hints.bytes_per_pack);
    }
  }
  if ((flags & kOnGpusFlag) != 0) {
    header.gpu_op = static_cast<CollectiveOp>(reader.Take<uint8_t>());
    if (header.gpu_op <= CollectiveOp::kNone || header.gpu_op > kLastCollectiveOp) {
      return DataLoss("a call of operation {} on GPUs", static_cast<int>(header.gpu_op));
    }
  }
  header.num_tensors = reader.Take<uint32_t>();
  if (header.op <= CollectiveOp::kNone || header.op > kLastCollectiveOp ||
      header.reduction < ReduceOp::kSum || header.reduction > kLastReduceOp ||
      (flags & ~(kUnevenFlag | kHintedFlag | kOnGpusFlag)) != 0) {
    return DataLoss("a call of operation {}, reduction {} and flags {}",
                    static_cast<int>(header.op), static_cast<int>(header.reduction), flags);
  }
  if (header.num_tensors > reader.remaining() / kLeastSignatureBytes) {
    return DataLoss("a call of {} tensors in {} bytes", header.num_tensors, bytes.size());
  }
  if (header.num_tensors > 1) header.rest.resize(header.num_tensors - 1);
  for (size_t i = 0; i < header.num_tensors; ++i) {
    TUTTI_RETURN_IF_ERROR(ParseSignature(&reader, i == 0 ? &header.first : &header.rest[i - 1]));
  }
  if (!reader.complete()) return DataLoss("a call header of {} bytes that ends elsewhere",
                                          bytes.size());
  return header;
}

void AppendStatus(const Status& status, std::string* out) {
  WireWriter writer(out);
  writer.Put(static_cast<uint8_t>(status.code()));
  writer.PutText(status.message().substr(0, kMaxMessageBytes));
  const size_t num_details = std::min(status.details().size(), kMaxDetails);
  writer.Put(static_cast<uint8_t>(num_details));
  // Long texts may not add up to more than a status may take.
  const size_t room = kMaxStatusBytes - kMaxMessageBytes - kMaxCauses * (kMaxTextBytes + 8) - 64;
  std::string details;
  WireWriter detail_writer(&details);
  size_t written = 0;
  for (size_t i = 0; i < num_details; ++i) {
    const size_t before = details.size();
    AppendDetail(status.details()[i], &detail_writer);
    if (details.size() > room) {
      details.resize(before);
      break;
    }
    ++written;
  }
  out->back() = static_cast<char>(written);
  out->append(details);
  const size_t num_causes = std::min(status.causes().size(), kMaxCauses);
  writer.Put(static_cast<uint8_t>(num_causes));
  for (size_t i = 0; i < num_causes; ++i) {
    const Status& cause = status.causes()[i];
    writer.Put(static_cast<uint8_t>(cause.code()));
    writer.PutText(cause.message().substr(0, kMaxTextBytes));
  }
}

Status ParseStatus(std::string_view bytes) {
  WireReader reader(bytes);
  const int code = reader.Take<uint8_t>();
  const std::string message(reader.TakeText());
  const auto valid = [](int number) {
    return number > 0 && number <= static_cast<int>(StatusCode::kUnauthenticated);
  };
  if (reader.failed() || !valid(code)) return DataLoss("an error of code {}", code);
  Status status(static_cast<StatusCode>(code), message);
  const int num_details = reader.Take<uint8_t>();
  for (int i = 0; i < num_details && !reader.failed(); ++i) {
    status = ParseDetail(&reader, std::move(status));
  }
  const int num_causes = reader.Take<uint8_t>();
  for (int i = 0; i < num_causes && !reader.failed(); ++i) {
    const int cause_code = reader.Take<uint8_t>();
    const std::string cause(reader.TakeText());
    if (!valid(cause_code)) return DataLoss("an error with a cause of code {}", cause_code);
    status = std::move(status).WithCause(Status(static_cast<StatusCode>(cause_code), cause));
  }
  if (!reader.complete()) return DataLoss("an error of {} bytes that ends elsewhere", bytes.size());
  return status;
}

}  // namespace tutti

// Numbers lie in groups of 7 bits, lowest first; the highest bit says that more follow:
//
//   reduction | root | axis << 3 | on GPUs << 2 | hinted << 1 | uneven | number of tensors |
//   tensor...
//   where hinted, behind these: implementation | bytes per pack; on GPUs: what is called there
//   tensor: dtype | rank | dim...

#include "core/collective/call/shared_header.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/shape.h"

namespace tutti {
namespace {

constexpr size_t kMostNumberBytes = 10;
// The header of a tensor of several axes.
constexpr size_t kFewBytes = 160;
// Flags beside the axis.
constexpr int64_t kUnevenBit = 1;
constexpr int64_t kHintedBit = 2;
constexpr int64_t kOnGpusBit = 4;
constexpr int kAxisShift = 3;

std::byte* PutNumber(uint64_t number, std::byte* at) {
  for (; number >= 0x80; number >>= 7) *at++ = static_cast<std::byte>(number | 0x80);
  *at++ = static_cast<std::byte>(number);
  return at;
}

class NumberReader {
 public:
  explicit NumberReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool at_end() const { return at_ == bytes_.size(); }
  // False at the end, and for what is no number in [0, limit].
  bool Read(int64_t limit, int64_t* number) {
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      if (at_end()) return false;
      const auto byte = static_cast<uint64_t>(bytes_[at_++]);
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) != 0) continue;
      *number = static_cast<int64_t>(value);
      return *number <= limit;
    }
    return false;
  }

 private:
  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

bool ReadSignature(NumberReader& reader, TensorSignature* signature) {
  int64_t dtype = 0;
  int64_t rank = 0;
  if (!reader.Read(static_cast<int64_t>(DType::kBytes), &dtype)) return false;
  if (!reader.Read(static_cast<int64_t>(Shape::kMaxRank), &rank)) return false;
  signature->dtype = static_cast<DType>(dtype);
  signature->dims = Dims(static_cast<size_t>(rank), 0);
  for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis) {
    if (!reader.Read(INT64_MAX, &signature->dims[axis])) return false;
  }
  return true;
}

}  // namespace

void EncodeSharedHeader(const CallHeader& header, std::vector<std::byte>* bytes) {
  // Room for all first: every small call comes through here.
  size_t most = 7;
  for (size_t i = 0; i < header.num_tensors; ++i) most += 2 + header.tensor(i).dims.size();
  most *= kMostNumberBytes;
  std::byte few[kFewBytes];
  if (most > kFewBytes) bytes->resize(most);
  std::byte* const begin = most > kFewBytes ? bytes->data() : few;
  std::byte* at = begin;
  at = PutNumber(static_cast<uint64_t>(header.reduction), at);
  at = PutNumber(static_cast<uint64_t>(header.root), at);
  const bool hinted = header.hints.any();
  const bool on_gpus = header.gpu_op != CollectiveOp::kNone;
  const int64_t flags = (on_gpus ? kOnGpusBit : 0) | (hinted ? kHintedBit : 0) |
                        (header.uneven ? kUnevenBit : 0);
  at = PutNumber(static_cast<uint64_t>(header.axis << kAxisShift | flags), at);
  if (hinted) {
    at = PutNumber(static_cast<uint64_t>(header.hints.implementation), at);
    at = PutNumber(static_cast<uint64_t>(header.hints.bytes_per_pack), at);
  }
  if (on_gpus) at = PutNumber(static_cast<uint64_t>(header.gpu_op), at);
  at = PutNumber(header.num_tensors, at);
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const TensorSignature& signature = header.tensor(i);
    at = PutNumber(static_cast<uint64_t>(signature.dtype), at);
    at = PutNumber(signature.dims.size(), at);
    for (size_t axis = 0; axis < signature.dims.size(); ++axis) {
      const bool left_out = header.uneven && static_cast<int64_t>(axis) == header.axis;
      at = PutNumber(left_out ? 0 : static_cast<uint64_t>(signature.dims[axis]), at);
    }
  }
  if (begin == few) {
    bytes->assign(begin, at);
  } else {
    bytes->resize(static_cast<size_t>(at - begin));
  }
}

Result<CallHeader> DecodeSharedHeader(CollectiveOp op, std::span<const std::byte> bytes,
                                      bool complete, size_t* whole_num_tensors) {
  NumberReader reader(bytes);
  CallHeader header;
  header.op = op;
  int64_t reduction = 0;
  int64_t axis_and_flags = 0;
  int64_t implementation = 0;
  int64_t gpu_op = 0;
  int64_t num_tensors = 0;
  bool good = reader.Read(static_cast<int64_t>(kLastReduceOp), &reduction) &&
              reader.Read(INT64_MAX, &header.root) &&
              reader.Read(static_cast<int64_t>(Shape::kMaxRank) << kAxisShift | kOnGpusBit |
                              kHintedBit | kUnevenBit,
                          &axis_and_flags);
  if (good && (axis_and_flags & kHintedBit) != 0) {
    good = reader.Read(static_cast<int64_t>(kLastCommunicationImplementation), &implementation) &&
           reader.Read(INT64_MAX, &header.hints.bytes_per_pack);
  }
  if (good && (axis_and_flags & kOnGpusBit) != 0) {
    good = reader.Read(static_cast<int64_t>(kLastCollectiveOp), &gpu_op) && gpu_op != 0;
  }
  good = good && reader.Read(INT64_MAX, &num_tensors);
  header.reduction = static_cast<ReduceOp>(reduction);
  header.axis = axis_and_flags >> kAxisShift;
  header.uneven = (axis_and_flags & kUnevenBit) != 0;
  header.hints.implementation = static_cast<CommunicationImplementation>(implementation);
  header.gpu_op = static_cast<CollectiveOp>(gpu_op);
  while (good && header.num_tensors < static_cast<size_t>(num_tensors)) {
    TensorSignature signature;
    if (!ReadSignature(reader, &signature)) {
      good = !complete && reader.at_end();
      break;
    }
    if (header.num_tensors++ == 0) {
      header.first = std::move(signature);
    } else {
      header.rest.push_back(std::move(signature));
    }
  }
  if (!good || (complete && !reader.at_end())) {
    return Internal("{} bytes in shared memory are no header of {}", bytes.size(),
                    CollectiveOpName(op));
  }
  *whole_num_tensors = static_cast<size_t>(num_tensors);
  return header;
}

uint64_t HashSharedHeader(std::span<const std::byte> bytes) {
  // FNV-1a with words in place of bytes, whose upper bits come down again: the ranks are friends,
  // only chance makes hashes meet.
  uint64_t hash = 0xcbf29ce484222325 ^ bytes.size();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    mix(word);
  }
  uint64_t last = 0;
  if (!bytes.empty()) std::memcpy(&last, bytes.data(), bytes.size());
  mix(last);
  return hash;
}

}  // namespace tutti

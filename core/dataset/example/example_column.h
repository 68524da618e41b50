// One feature's column while examples are parsed into it: which kind of list its values come from,
// where the next one goes, and what turned out to be wrong with the current example's values.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_COLUMN_H_
#define TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/example/example_parser.h"
#include "core/dataset/example/example_wire.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tutti {

class MemoryAccount;

// The field numbers of Feature's oneof.
enum class ExampleList : uint32_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// "bytes_list", "float_list", "int64_list", "no list".
std::string_view ExampleListName(ExampleList list);
// The list that values of this dtype come from; kNone for a dtype that none of them holds.
ExampleList ExampleListOf(DType dtype);

class ExampleColumn {
 public:
  // `feature` outlives the column.
  explicit ExampleColumn(const ExampleFeature& feature);

  // Room for the values of as many examples as `outer` has elements; a feature that is not kFixed
  // gets it as its values come. Memory is charged to `account` (may be null).
  Status Allocate(const Shape& outer, MemoryAccount* account);

  // Forgets the values of the current example, which an entry with the same key replaces.
  void BeginExample() {
    list_ = ExampleList::kNone;
    count_ = 0;
    misfit_.clear();
  }
  // Adds what one Feature message holds. False when it is malformed: `reader` says how.
  bool AddFeature(WireReader* reader);
  // Moves on to the next example: OK when this one had the right values, or none and there is a
  // default. The error does not say which example it was.
  Status EndExample();
  // Whether the current example has values so far.
  bool empty() const { return list_ == ExampleList::kNone; }

  const ExampleFeature& feature() const { return feature_; }

  // The column, when all examples have ended. Byte strings become views into `examples`, or, when
  // they are a small part of its `payload_bytes`, are copied.
  Result<Ref<Tensor>> Finish(const Ref<const Tensor>& examples, size_t payload_bytes);
  // The same of a feature that is not kFixed: all values, one after the other, and how many each
  // example has.
  Result<Ref<Tensor>> FinishValues(const Ref<const Tensor>& examples, size_t payload_bytes);
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  bool AddBytesList(WireReader* reader);
  bool AddFloatList(WireReader* reader);
  bool AddInt64List(WireReader* reader);
  bool AddInt64s(WireReader* values);
  void AddFloats(const char* values, size_t n);
  void StoreInt64s(const int64_t* values, size_t n);
  void StoreFloats(const float* values, size_t n);
  void StoreDefault();
  // "3 values (float32[3])".
  std::string Described() const;
  bool grows() const { return feature_.kind != FeatureKind::kFixed; }
  // Makes room for `more` values of the current example.
  void Grow(size_t more);
  size_t Room() const { return count_ < size_ ? size_ - count_ : 0; }
  char* Cursor() const { return next_ + (size_ - Room()) * item_size_; }

  const ExampleFeature& feature_;
  const ExampleList wanted_;
  const size_t step_;  // values of its shape
  size_t size_;        // values per example, or as many as there is room for
  const size_t item_size_;
  Shape shape_;
  MemoryAccount* account_ = nullptr;

  Ref<Tensor> tensor_;            // of all but bytes
  std::vector<BytesView> views_;  // of bytes
  std::vector<char> grown_;       // of what is not kFixed
  std::vector<int64_t> counts_;
  char* next_ = nullptr;          // the current example's first value

  ExampleList list_ = ExampleList::kNone;  // the kind that the current example has
  size_t count_ = 0;                       // values of it so far, also beyond size_
  std::string misfit_;                     // the first value that the dtype cannot hold
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_COLUMN_H_

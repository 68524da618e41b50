#include "core/dataset/example/example_parser.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/example/example_column.h"
#include "core/dataset/example/example_wire.h"
#include "core/tensor/convert.h"

namespace tutti {
namespace {

// How many of an example's keys a message names.
constexpr size_t kMaxKeysNamed = 20;

// Walks one example after the other and hands each feature's bytes to its column.
class ExampleWalker {
 public:
  explicit ExampleWalker(std::vector<ExampleColumn>* columns)
      : columns_(*columns), followers_(columns->size() + 1, 0) {}

  Status Walk(std::string_view example) {
    last_ = 0;
    WireReader reader(example);
    if (!WalkExample(&reader)) return Malformed(reader, example);
    for (ExampleColumn& column : columns_) {
      if (column.empty() && column.feature().default_value == nullptr) {
        return Missing(column.feature().key, example);
      }
      Status status = column.EndExample();
      if (!status.ok()) return std::move(status).With("feature", column.feature().key);
    }
    return OkStatus();
  }

 private:
  bool WalkExample(WireReader* reader) {
    WireTag tag;
    while (reader->Next(&tag)) {
      if (!tag.Is(1, WireType::kLengthDelimited)) {
        if (!reader->Skip(tag)) return false;
        continue;
      }
      std::string_view part;
      if (!reader->ReadPart(&part)) return false;
      WireReader features(part);
      if (!WalkFeatures(&features)) {
        *reader = features;
        return false;
      }
    }
    return !reader->failed();
  }

  bool WalkFeatures(WireReader* reader) {
    WireTag tag;
    while (reader->Next(&tag)) {
      if (!tag.Is(1, WireType::kLengthDelimited)) {
        if (!reader->Skip(tag)) return false;
        continue;
      }
      std::string_view part;
      if (!reader->ReadPart(&part)) return false;
      WireReader entry(part);
      if (!WalkEntry(part, &entry)) {
        *reader = entry;
        return false;
      }
    }
    return !reader->failed();
  }

  // An entry of the map: field 1 is the key, field 2 the Feature.
  bool WalkEntry(std::string_view entry, WireReader* reader) {
    std::string_view key;
    std::string_view value;
    size_t values = 0;
    WireTag tag;
    while (reader->Next(&tag)) {
      if (tag.Is(1, WireType::kLengthDelimited)) {
        if (!reader->ReadPart(&key)) return false;
      } else if (tag.Is(2, WireType::kLengthDelimited)) {
        if (!reader->ReadPart(&value)) return false;
        ++values;
      } else if (!reader->Skip(tag)) {
        return false;
      }
    }
    if (reader->failed()) return false;
    ExampleColumn* column = Find(key);
    if (column == nullptr) return true;
    column->BeginExample();
    if (values == 1) return AddFeature(column, value, reader);
    // A Feature in several pieces, which are merged.
    WireReader again(entry);
    while (again.Next(&tag)) {
      if (!tag.Is(2, WireType::kLengthDelimited)) {
        again.Skip(tag);
        continue;
      }
      again.ReadPart(&value);
      if (!AddFeature(column, value, reader)) return false;
    }
    return true;
  }

  static bool AddFeature(ExampleColumn* column, std::string_view value, WireReader* reader) {
    WireReader feature(value);
    if (column->AddFeature(&feature)) return true;
    *reader = feature;
    return false;
  }

  // Examples of one file mostly have their features in the same order: the column that came after
  // the last one in the example before is tried first.
  ExampleColumn* Find(std::string_view key) {
    size_t& follower = followers_[last_];
    if (columns_[follower].feature().key != key) {
      const auto found = std::lower_bound(columns_.begin(), columns_.end(), key,
                                          [](const ExampleColumn& column, std::string_view wanted) {
                                            return column.feature().key < wanted;
                                          });
      if (found == columns_.end() || found->feature().key != key) return nullptr;
      follower = static_cast<size_t>(found - columns_.begin());
    }
    last_ = follower + 1;
    return &columns_[last_ - 1];
  }

  static Status Malformed(const WireReader& reader, std::string_view example) {
    const auto offset = static_cast<int64_t>(reader.position() - example.data());
    return InvalidArgument(
               "malformed at byte {} of {}: {}; the input should be a serialised "
               "tf.train.Example",
               offset, example.size(), reader.error())
        .With("offset", offset);
  }

  static Status Missing(const std::string& key, std::string_view example) {
    const std::vector<std::string> keys = KeysOf(example);
    std::string known;
    for (size_t i = 0; i < std::min(keys.size(), kMaxKeysNamed); ++i) {
      if (i > 0) known += ", ";
      known += Quote(keys[i]);
    }
    if (keys.size() > kMaxKeysNamed) known += Format(" and {} more", keys.size() - kMaxKeysNamed);
    const std::string nearest = NearestName(key, keys);
    return InvalidArgument("feature {} is required and missing; the example has {}; {}", Quote(key),
                           keys.empty() ? std::string("no features") : known,
                           nearest.empty() ? std::string("a default value makes it optional")
                                           : Format("did you mean {}?", Quote(nearest)))
        .With("feature", key);
  }

  // Of an example that has been walked before, and is therefore well-formed.
  static std::vector<std::string> KeysOf(std::string_view example) {
    std::vector<std::string> keys;
    ForEachPart(example, 1, [&](std::string_view features) {
      ForEachPart(features, 1, [&](std::string_view entry) {
        std::string_view last;
        ForEachPart(entry, 1, [&](std::string_view key) { last = key; });
        keys.emplace_back(last);
      });
    });
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
  }

  template <class Visitor>
  static void ForEachPart(std::string_view bytes, uint32_t field, Visitor&& visit) {
    WireReader reader(bytes);
    WireTag tag;
    while (reader.Next(&tag)) {
      std::string_view part;
      if (!tag.Is(field, WireType::kLengthDelimited)) {
        reader.Skip(tag);
      } else if (reader.ReadPart(&part)) {
        visit(part);
      }
    }
  }

  std::vector<ExampleColumn>& columns_;
  // followers_[i + 1]: the column that came after column i; followers_[0]: the one that came first.
  std::vector<size_t> followers_;
  size_t last_ = 0;  // the number of the column that came last, plus 1
};

// Says which example it was: by the detail "row" along axis 0, which a caller can translate, and in
// the message by the position within the row.
Status About(Status status, const Tensor& examples, int64_t i) {
  if (examples.rank() == 0) return std::move(status).WithPrefix("parse_example");
  const int64_t per_row = examples.num_elements() / examples.dim(0);
  const std::string prefix = per_row == 1 ? std::string("parse_example")
                                          : Format("parse_example: example {}", i % per_row);
  return std::move(status).WithPrefix(prefix).With("row", i / per_row);
}

Status CheckFeature(const ExampleFeature& feature) {
  if (feature.key.empty()) {
    return InvalidArgument("parse_example: a feature has an empty key");
  }
  if (ExampleListOf(feature.dtype) == ExampleList::kNone) {
    return InvalidArgument(
               "parse_example: feature {} has dtype {}, which no list of an Example "
               "holds; use bytes, bool, an integer or a real floating dtype",
               Quote(feature.key), DTypeName(feature.dtype))
        .With("feature", feature.key);
  }
  return OkStatus();
}

// Converts the default to the feature's dtype.
Status FitDefault(ExampleFeature* feature) {
  const Ref<const Tensor>& value = feature->default_value;
  if (value == nullptr) return OkStatus();
  const auto mismatch = [&](std::string_view why) {
    return InvalidArgument("parse_example: feature {} is {}{}, its default value {}; {}",
                           Quote(feature->key), DTypeName(feature->dtype),
                           feature->shape.ToString(), value->SpecString(), why)
        .With("feature", feature->key);
  };
  if (!(value->shape() == feature->shape)) return mismatch("they must be of one shape");
  Result<Ref<Tensor>> converted =
      Convert(Ref<Tensor>::Retain(const_cast<Tensor*>(value.get())), feature->dtype);
  if (converted.status().code() == StatusCode::kInvalidArgument) {
    return mismatch(converted.status().message());
  }
  if (converted.ok()) converted = (*converted)->Contiguous();
  if (!converted.ok()) return converted.status();
  feature->default_value = std::move(converted).value();
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<const ExampleParser>> ExampleParser::Create(
    std::vector<ExampleFeature> features) {
  if (features.empty()) {
    return InvalidArgument("parse_example: there are no features; name at least one");
  }
  std::sort(features.begin(), features.end(),
            [](const ExampleFeature& a, const ExampleFeature& b) { return a.key < b.key; });
  std::vector<std::string> keys;
  for (ExampleFeature& feature : features) {
    TUTTI_RETURN_IF_ERROR(CheckFeature(feature));
    if (!keys.empty() && keys.back() == feature.key) {
      return InvalidArgument("parse_example: feature {} is named twice", Quote(feature.key))
          .With("feature", feature.key);
    }
    keys.push_back(feature.key);
    TUTTI_RETURN_IF_ERROR(FitDefault(&feature));
  }
  TreeSpec::Children leaves(keys.size(), Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()));
  TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> tree,
                         TreeSpec::Dict(std::move(keys), std::move(leaves)));
  return std::unique_ptr<const ExampleParser>(
      new ExampleParser(std::move(features), std::move(tree)));
}

ExampleParser::ExampleParser(std::vector<ExampleFeature> features, Ref<const TreeSpec> tree)
    : features_(std::move(features)), tree_(std::move(tree)) {}

Result<Ref<Value>> ExampleParser::Parse(const Ref<const Tensor>& examples,
                                        MemoryAccount* account) const {
  if (examples->dtype() != DType::kBytes) {
    return InvalidArgument(
        "parse_example: the input should be serialised examples (bytes) and is "
        "{}",
        examples->SpecString());
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<const Tensor> rows, examples->Contiguous());
  std::vector<ExampleColumn> columns;
  columns.reserve(features_.size());
  for (const ExampleFeature& feature : features_) {
    columns.emplace_back(feature);
    TUTTI_RETURN_IF_ERROR(columns.back().Allocate(rows->shape(), account));
  }

  ExampleWalker walker(&columns);
  size_t payload_bytes = 0;
  const std::span<const BytesView> views = rows->span<BytesView>();
  for (size_t i = 0; i < views.size(); ++i) {
    Status status = walker.Walk(views[i].text());
    if (!status.ok()) return About(std::move(status), *rows, static_cast<int64_t>(i));
    payload_bytes += views[i].size;
  }

  std::vector<Leaf> leaves;
  leaves.reserve(columns.size());
  for (ExampleColumn& column : columns) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, column.Finish(rows, payload_bytes));
    leaves.push_back(Leaf::OfTensor(std::move(tensor)));
  }
  return Value::FromLeaves(tree_, std::move(leaves));
}

}  // namespace tutti

#include "core/dataset/example/example_parser.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/example/example_column.h"
#include "core/dataset/example/example_wire.h"
#include "core/dataset/example/variable_feature.h"
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
      if (column.empty() && column.feature().kind == FeatureKind::kFixed &&
          column.feature().default_value == nullptr) {
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

Status CheckKind(const ExampleFeature& feature) {
  std::string_view why;
  switch (feature.kind) {
    case FeatureKind::kFixed: return OkStatus();
    case FeatureKind::kSequence: break;
    case FeatureKind::kVarLen:
      if (feature.shape.rank() != 0) why = "it is sparse and has a shape; leave the shape away";
      break;
    case FeatureKind::kRagged: break;
    default: why = "there is no such kind of features; expected fixed, sequence, var_len or ragged";
  }
  if (why.empty() && feature.kind != FeatureKind::kSequence && feature.default_value != nullptr) {
    why = "it has a default value, and an example without it has no values; leave the default away";
  }
  if (why.empty() && feature.shape.num_elements() == 0) {
    why = "a step has no values, so that nobody could count the steps";
  }
  if (why.empty()) return OkStatus();
  return InvalidArgument("parse_example: feature {}: {}", Quote(feature.key), why)
      .With("feature", feature.key);
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
  if (feature->kind == FeatureKind::kSequence) {
    if (value->rank() != 0) return mismatch("that of a sequence is a scalar");
  } else if (!(value->shape() == feature->shape)) {
    return mismatch("they must be of one shape");
  }
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

bool IsFixed(const ExampleFeature& feature) { return feature.kind == FeatureKind::kFixed; }

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
    TUTTI_RETURN_IF_ERROR(CheckKind(feature));
    if (!keys.empty() && keys.back() == feature.key) {
      return InvalidArgument("parse_example: feature {} is named twice", Quote(feature.key))
          .With("feature", feature.key);
    }
    keys.push_back(feature.key);
    TUTTI_RETURN_IF_ERROR(FitDefault(&feature));
  }
  Ref<const TreeSpec> tree;
  if (std::ranges::all_of(features, IsFixed)) {
    TreeSpec::Children leaves(keys.size(), Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()));
    TUTTI_ASSIGN_OR_RETURN(tree, TreeSpec::Dict(std::move(keys), std::move(leaves)));
  }
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
  TUTTI_RETURN_IF_ERROR(CheckRank(examples->rank()));
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
    if (!IsFixed(column.feature())) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Value> part,
                             PartOfColumn(&column, rows->shape(), rows, payload_bytes, account));
      leaves.insert(leaves.end(), part->leaves().begin(), part->leaves().end());
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, column.Finish(rows, payload_bytes));
    leaves.push_back(Leaf::OfTensor(std::move(tensor)));
  }
  Ref<const TreeSpec> tree = tree_;
  if (!tree) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> spec,
                           OutputSpec(PartialShape(rows->shape())));
    tree = spec->tree_ref();
  }
  return Value::FromLeaves(std::move(tree), std::move(leaves));
}

Status ExampleParser::CheckRank(size_t rank) const {
  if (rank <= 1) return OkStatus();
  for (const ExampleFeature& feature : features_) {
    if (feature.kind != FeatureKind::kVarLen && feature.kind != FeatureKind::kRagged) continue;
    return InvalidArgument("parse_example: feature {} is {}, and the examples have {} axes; "
                           "expected one example, or a vector of some",
                           Quote(feature.key),
                           feature.kind == FeatureKind::kVarLen ? "sparse" : "ragged", rank)
        .With("feature", feature.key);
  }
  return OkStatus();
}

Result<Ref<const ElementSpec>> ExampleParser::OutputSpec(const PartialShape& outer) const {
  if (!is_fixed() && !outer.has_rank()) return Ref<const ElementSpec>();
  if (outer.has_rank()) TUTTI_RETURN_IF_ERROR(CheckRank(outer.rank()));
  std::vector<std::string> keys;
  TreeSpec::Children children;
  std::vector<LeafSpec> leaves;
  for (const ExampleFeature& feature : features_) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> part, SpecOfFeature(feature, outer));
    keys.push_back(feature.key);
    children.push_back(part->tree_ref());
    leaves.insert(leaves.end(), part->leaves().begin(), part->leaves().end());
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> tree,
                         TreeSpec::Dict(std::move(keys), std::move(children)));
  return ElementSpec::Create(std::move(tree), std::move(leaves));
}

}  // namespace tutti

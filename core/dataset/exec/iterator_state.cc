#include "core/dataset/exec/iterator_state.h"

#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"

namespace tutti {
namespace {

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// A status code and so many times the loss.
constexpr int64_t kLossUnit = 1 << 8;

// Structures below this many others are not read again.
constexpr int kMaxTreeDepth = 64;
// Datasets whose elements are datasets: windows of windows.
constexpr int kMaxDatasetDepth = 16;

bool IsDeeper(const TreeSpec& tree, int levels) {
  if (tree.is_leaf()) return false;
  if (levels < 0) return true;
  for (size_t i = 0; i < tree.num_children(); ++i) {
    if (IsDeeper(tree.child(i), levels - 1)) return true;
  }
  return false;
}

}  // namespace

Status OtherStateVersion(std::string_view what, int64_t saved, int64_t known) {
  return InvalidArgument(
             "restore: this state has {} in version {}, and version {} is read here: {} release "
             "saved it; start the iterator afresh, or restore with the release that saved it",
             what, saved, known, saved < known ? "an earlier" : "a later")
      .With("what", std::string(what))
      .With("version", saved)
      .With("known_version", known);
}

void StateWriter::Number(uint64_t value) {
  while (value >= 0x80) {
    bytes_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  bytes_.push_back(static_cast<char>(value));
}

void StateWriter::Int(int64_t value) {
  Tag('i');
  Number(ZigZag(value));
}

void StateWriter::Text(std::string_view value) {
  Number(value.size());
  bytes_.append(value);
}

void StateWriter::Bytes(std::string_view value) {
  Tag('b');
  Text(value);
}

void StateWriter::Ints(std::span<const int64_t> values) {
  Tag('l');
  Number(values.size());
  uint64_t previous = 0;
  for (int64_t value : values) {
    Number(ZigZag(static_cast<int64_t>(static_cast<uint64_t>(value) - previous)));
    previous = static_cast<uint64_t>(value);
  }
}

void StateWriter::Section(std::string_view name) {
  Tag('s');
  Text(name);
}

void StateWriter::Tree(const TreeSpec& tree) {
  Tag('k');
  Number(static_cast<uint64_t>(tree.kind()));
  if (tree.is_leaf()) return;
  Text(tree.name());
  Number(tree.num_children());
  for (size_t i = 0; i < tree.num_children(); ++i) {
    Text(tree.keys().empty() ? std::string_view() : std::string_view(tree.key(i)));
    Tree(tree.child(i));
  }
}

Status StateWriter::WriteTensor(const Tensor& original) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, original.Contiguous());
  Tag('t');
  Number(static_cast<uint64_t>(tensor->dtype()));
  Number(tensor->rank());
  for (int64_t dim : tensor->shape().dims()) Number(static_cast<uint64_t>(dim));
  if (tensor->dtype() == DType::kBytes) {
    for (const BytesView& view : tensor->span<BytesView>()) {
      Text(view.text());
    }
  } else {
    bytes_.append(static_cast<const char*>(tensor->data()), tensor->byte_size());
  }
  return OkStatus();
}

Status StateWriter::Rows(const Slab& slab) {
  if (slab.tree && IsDeeper(*slab.tree, kMaxTreeDepth)) {
    return FailedPrecondition(
        "save: an element in flight is nested more than {} levels deep, and a state holds no more; "
        "flatten its structure",
        kMaxTreeDepth + 1);
  }
  Tag('r');
  Number(static_cast<uint64_t>(slab.rows));
  Number(slab.columns.size());
  // Rows without leaves have a structure and no columns; rows that were only counted have neither.
  if (!slab.columns.empty() || (slab.tree && slab.tree->num_leaves() == 0)) Tree(*slab.tree);
  for (const Column& column : slab.columns) {
    if (column.is_dense()) {
      Tag('d');
      TUTTI_RETURN_IF_ERROR(WriteTensor(*column.dense()));
      continue;
    }
    Tag('v');
    for (const Leaf& leaf : column.leaves()) {
      if (leaf.is_none()) {
        Tag('n');
      } else if (leaf.is_tensor()) {
        TUTTI_RETURN_IF_ERROR(WriteTensor(leaf.tensor()));
      } else if (leaf.kind() == LeafKind::kString) {
        Tag('u');
        Text(leaf.string());
      } else if (leaf.kind() == LeafKind::kDataset) {
        TUTTI_RETURN_IF_ERROR(WriteDataset(*leaf.object_as<const Dataset>()));
      } else {
        return FailedPrecondition(
            "save: an element in flight holds {}, which has no saved form; save between elements "
            "that hold tensors, strings and none only",
            LeafKindName(leaf.kind()));
      }
    }
  }
  return OkStatus();
}

Status StateWriter::WriteDataset(const Dataset& dataset) {
  const Node& node = dataset.node();
  const auto* value = node.attributes().Get<Ref<const Value>>("value");
  if (!node.op().is_value || value == nullptr || !dataset.options().empty()) {
    return FailedPrecondition(
        "save: an element in flight holds a dataset that {}, which has no saved form; only windows "
        "and other datasets that are values of their own have one; save between such elements, or "
        "take the datasets apart (flat_map) before elements are kept",
        dataset.options().empty() ? Format("'{}' gives", node.label()) : "has options");
  }
  if (dataset_depth_ == kMaxDatasetDepth) {
    return FailedPrecondition(
        "save: an element in flight holds datasets of datasets more than {} levels deep, and a "
        "state holds no more",
        kMaxDatasetDepth);
  }
  Tag('w');
  Text(node.op().name);
  Text(node.name());
  Slab row;
  row.rows = 1;
  row.tree = (*value)->spec_ref();
  for (const Leaf& leaf : (*value)->leaves()) row.columns.push_back(Column::Rows({leaf}));
  ++dataset_depth_;
  const Status written = Rows(row);
  --dataset_depth_;
  return written;
}

void StateWriter::Failure(const Status& status) {
  Int(static_cast<int64_t>(status.code()) + kLossUnit * static_cast<int64_t>(LossOf(status)));
  Bytes(status.message());
}

void StateReader::Fail(std::string_view why) {
  if (status_.ok()) {
    status_ = InvalidArgument(
        "restore: these bytes are no state of this iterator ({}); pass what "
        "save gave for an equal dataset",
        why);
  }
  rest_ = {};
}

bool StateReader::Tag(char tag) {
  if (!status_.ok()) return false;
  if (rest_.empty() || rest_[0] != tag) {
    Fail(rest_.empty() ? "they end too early" : "a field has another type");
    return false;
  }
  rest_.remove_prefix(1);
  return true;
}

uint64_t StateReader::Number() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  Fail("a number is torn");
  return 0;
}

int64_t StateReader::Int() { return Tag('i') ? UnZigZag(Number()) : 0; }

int64_t StateReader::IntIn(int64_t low, int64_t high) {
  const int64_t value = Int();
  if (status_.ok() && (value < low || value > high)) Fail("a number is out of range");
  return status_.ok() ? value : low;
}

std::string_view StateReader::Text() {
  const uint64_t size = Number();
  if (size > rest_.size()) Fail("they end too early");
  if (!status_.ok()) return {};
  const std::string_view value = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return value;
}

std::string_view StateReader::Bytes() { return Tag('b') ? Text() : std::string_view(); }

std::vector<int64_t> StateReader::Ints() {
  if (!Tag('l')) return {};
  const uint64_t count = Number();
  if (count > rest_.size()) Fail("they end too early");
  std::vector<int64_t> values;
  if (!status_.ok()) return values;
  values.reserve(count);
  uint64_t previous = 0;
  for (uint64_t i = 0; i < count; ++i) {
    previous += static_cast<uint64_t>(UnZigZag(Number()));
    values.push_back(static_cast<int64_t>(previous));
  }
  if (!status_.ok()) values.clear();
  return values;
}

void StateReader::Section(std::string_view name) {
  if (Tag('s') && Text() != name) Fail("they are of another op");
}

bool StateReader::IsAt(std::string_view section) const {
  StateReader ahead = *this;
  ahead.Section(section);
  return ahead.ok();
}

void StateReader::Version(std::string_view what, int64_t known) {
  const int64_t version = Int();
  if (!status_.ok() || version == known) return;
  status_ = OtherStateVersion(what, version, known);
  rest_ = {};
}

Ref<const TreeSpec> StateReader::Tree() { return ReadTree(0); }

Ref<const TreeSpec> StateReader::ReadTree(int depth) {
  if (!Tag('k')) return nullptr;
  const auto kind = static_cast<NodeKind>(Number());
  if (kind == NodeKind::kLeaf) return Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  std::string name(Text());
  const uint64_t count = Number();
  if (count > rest_.size() || depth > kMaxTreeDepth) Fail("a structure is impossible");
  TreeSpec::Children children;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count && status_.ok(); ++i) {
    keys.emplace_back(Text());
    children.push_back(ReadTree(depth + 1));
  }
  if (!status_.ok()) return nullptr;
  Result<Ref<const TreeSpec>> tree = Status(StatusCode::kInternal, "");
  switch (kind) {
    case NodeKind::kTuple:
      return TreeSpec::Tuple(std::move(children));
    case NodeKind::kList:
      return TreeSpec::List(std::move(children));
    case NodeKind::kDict:
      tree = TreeSpec::Dict(std::move(keys), std::move(children));
      break;
    case NodeKind::kNamedTuple:
      tree = TreeSpec::NamedTuple(std::move(name), std::move(keys), std::move(children));
      break;
    case NodeKind::kLeaf:
      break;
  }
  if (!tree.ok()) {
    Fail("a structure is impossible");
    return nullptr;
  }
  return std::move(tree).value();
}

Ref<Tensor> StateReader::ReadTensor() {
  if (!Tag('t')) return nullptr;
  const auto dtype = static_cast<DType>(Number());
  const uint64_t rank = Number();
  if (!status_.ok()) return nullptr;
  if (!IsValid(dtype) || rank > Shape::kMaxRank) {
    Fail("a tensor has an impossible type");
    return nullptr;
  }
  std::vector<int64_t> dims(rank);
  for (int64_t& dim : dims) dim = static_cast<int64_t>(Number());
  Result<Shape> shape = Shape::Create(dims.data(), rank);
  if (!status_.ok() || !shape.ok()) {
    Fail("a tensor has an impossible shape");
    return nullptr;
  }
  const auto elements = static_cast<uint64_t>(shape->num_elements());
  // A byte string takes one byte here at least.
  const uint64_t unit = dtype == DType::kBytes ? 1 : ItemSize(dtype);
  if (elements > rest_.size() / unit) {
    Fail("they end too early");
    return nullptr;
  }
  Result<Ref<Tensor>> tensor = Status(StatusCode::kInternal, "");
  if (dtype == DType::kBytes) {
    std::vector<BytesView> views(elements);
    for (BytesView& view : views) {
      const std::string_view text = Text();
      if (!status_.ok()) return nullptr;
      view = BytesView{text.data(), text.size()};
    }
    tensor = Tensor::FromStrings(*shape, views);
  } else {
    tensor = Tensor::FromData(dtype, *shape, rest_.data(), elements * unit);
    rest_.remove_prefix(elements * unit);
  }
  if (!tensor.ok()) {
    status_ = tensor.status();
    return nullptr;
  }
  return std::move(tensor).value();
}

Ref<Dataset> StateReader::ReadDataset() {
  if (!Tag('w')) return nullptr;
  const std::string_view op_name = Text();
  const std::string_view name = Text();
  if (!status_.ok()) return nullptr;
  if (environment_ == nullptr || dataset_depth_ == kMaxDatasetDepth) {
    Fail("a dataset stands where none can");
    return nullptr;
  }
  const Result<const OpTraits*> op = environment_->ops().Find(op_name);
  if (!op.ok() || !(*op)->is_value) {
    Fail("a dataset is of an operation that has no such form");
    return nullptr;
  }
  Slab row;
  ++dataset_depth_;
  Rows(&row);
  --dataset_depth_;
  if (!status_.ok()) return nullptr;
  if (row.rows != 1 || !row.tree) {
    Fail("a dataset has no value");
    return nullptr;
  }
  std::vector<Leaf> leaves;
  for (const Column& column : row.columns) leaves.push_back(column.Row(0));
  Result<Ref<Value>> value = Value::FromLeaves(row.tree, std::move(leaves));
  if (!value.ok()) {
    Fail("a dataset has no value");
    return nullptr;
  }
  Attributes attributes;
  attributes.Set("value", Ref<const Value>(std::move(value).value()));
  Result<Ref<const Node>> node =
      Node::Create(**op, std::string(name), std::move(attributes), {});
  if (!node.ok()) {
    Fail(node.status().message());
    return nullptr;
  }
  return Dataset::OfNode(Ref<DatasetEnvironment>::Retain(environment_), std::move(node).value(),
                         {});
}

Status StateReader::Failure() {
  const int64_t number = IntIn(0, kLossUnit * (static_cast<int64_t>(Loss::kMany) + 1) - 1);
  const int64_t code = number % kLossUnit;
  if (code > static_cast<int64_t>(StatusCode::kUnauthenticated)) Fail("a number is out of range");
  Status status(static_cast<StatusCode>(ok() ? code : 0), std::string(Bytes()));
  if (status.ok() || number < kLossUnit) return status;
  return WithLoss(std::move(status), static_cast<Loss>(number / kLossUnit));
}

void StateReader::Rows(Slab* slab) {
  if (!Tag('r')) return;
  const uint64_t rows = Number();
  const uint64_t columns = Number();
  if (!status_.ok()) return;
  if (rows > static_cast<uint64_t>(kMaxSlabRows) || columns > rest_.size()) {
    Fail("too many rows");
    return;
  }
  slab->rows = static_cast<int64_t>(rows);
  if (columns > 0 || (!rest_.empty() && rest_[0] == 'k')) {
    slab->tree = Tree();
    if (slab->tree && slab->tree->num_leaves() != columns) Fail("a row has other leaves");
  }
  for (uint64_t c = 0; c < columns && status_.ok(); ++c) {
    if (!rest_.empty() && rest_[0] == 'd') {
      rest_.remove_prefix(1);
      Ref<Tensor> tensor = ReadTensor();
      if (!tensor) return;
      if (tensor->rank() == 0 || tensor->dim(0) != slab->rows) {
        Fail("a column has another number of rows");
        return;
      }
      slab->columns.push_back(Column::Dense(std::move(tensor)));
      continue;
    }
    if (!Tag('v')) return;
    std::vector<Leaf> leaves;
    for (uint64_t r = 0; r < rows && status_.ok(); ++r) {
      const char tag = rest_.empty() ? '\0' : rest_[0];
      if (tag == 'n') {
        rest_.remove_prefix(1);
        leaves.push_back(Leaf::None());
      } else if (tag == 'u') {
        rest_.remove_prefix(1);
        leaves.push_back(Leaf::OfString(Text()));
      } else if (tag == 'w') {
        Ref<Dataset> dataset = ReadDataset();
        if (dataset) leaves.push_back(Leaf(LeafKind::kDataset, std::move(dataset)));
      } else {
        Ref<Tensor> tensor = ReadTensor();
        if (tensor) leaves.push_back(Leaf::OfTensor(std::move(tensor)));
      }
    }
    slab->columns.push_back(Column::Rows(std::move(leaves)));
  }
}

}  // namespace tutti

#include "json_values.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "datasets.h"

namespace conformance {
namespace {

bool IsBytes(const Json &json) { return json.is_object() && json.contains("bytes"); }

// A nested array as dims and a row of scalars.
struct Flat {
  std::vector<int64_t> dims;
  std::vector<Json> scalars;
};

void Flatten(const Json &json, size_t depth, Flat *flat) {
  if (!json.is_array()) {
    flat->scalars.push_back(json);
    return;
  }
  if (flat->dims.size() == depth) flat->dims.push_back(static_cast<int64_t>(json.size()));
  if (flat->dims[depth] != static_cast<int64_t>(json.size())) {
    throw std::invalid_argument("ragged array " + json.dump());
  }
  for (const Json &element : json) Flatten(element, depth + 1, flat);
}

Flat Flatten(const Json &json) {
  Flat flat;
  Flatten(json, 0, &flat);
  return flat;
}

double NumberOf(const Json &scalar) {
  if (scalar.is_string() && scalar == "nan") return std::nan("");
  if (scalar.is_boolean()) return scalar.get<bool>() ? 1 : 0;
  return scalar.get<double>();
}

Tensor BytesTensor(const Flat &flat) {
  std::vector<std::string> texts;
  for (const Json &scalar : flat.scalars) texts.push_back(scalar.at("bytes"));
  std::vector<tutti_string_view> views;
  for (const std::string &text : texts) views.push_back({text.data(), text.size()});
  Tensor tensor;
  Check(tutti_tensor_create_from_strings(nullptr, flat.dims.size(), flat.dims.data(), views.size(),
                                         views.data(), tensor.out()));
  return tensor;
}

Tensor TensorOfJson(const Json &json, tutti_dtype dtype) {
  const Flat flat = Flatten(json);
  if (!flat.scalars.empty() && IsBytes(flat.scalars[0])) return BytesTensor(flat);
  const bool real = std::any_of(
      flat.scalars.begin(), flat.scalars.end(),
      [](const Json &scalar) { return scalar.is_number_float() || scalar.is_string(); });
  const bool truth = !flat.scalars.empty() && flat.scalars[0].is_boolean();
  if (dtype == TUTTI_DTYPE_INVALID) {
    dtype = truth ? TUTTI_DTYPE_BOOL : real ? TUTTI_DTYPE_FLOAT32 : TUTTI_DTYPE_INT32;
  }
  std::vector<double> numbers;
  for (const Json &scalar : flat.scalars) numbers.push_back(NumberOf(scalar));
  return TensorOf(dtype, flat.dims, numbers);
}

void CompareTensor(const Json &expected, const Value &found, double tolerance, tutti_dtype dtype) {
  const auto mismatch = [&] {
    return Mismatch("expected " + expected.dump() + ", got " + ToText(found));
  };
  if (tutti_value_get_kind(found.get()) != TUTTI_NODE_LEAF ||
      tutti_value_get_leaf_kind(found.get(), 0) != TUTTI_LEAF_TENSOR) {
    throw mismatch();
  }
  const tutti_tensor *tensor = TensorIn(found);
  if (dtype != TUTTI_DTYPE_INVALID && dtype != tutti_tensor_get_dtype(tensor)) throw mismatch();
  const Flat flat = Flatten(expected);
  const int64_t *dims = tutti_tensor_get_dims(tensor);
  if (flat.dims == std::vector<int64_t>{0} && tutti_tensor_get_rank(tensor) > 0 && dims[0] == 0) {
    return;  // no rows, of any shape
  }
  if (flat.dims != std::vector<int64_t>(dims, dims + tutti_tensor_get_rank(tensor))) {
    throw mismatch();
  }
  if (tutti_tensor_get_dtype(tensor) == TUTTI_DTYPE_BYTES) {
    Tensor row;
    Check(tutti_tensor_copy(tensor, row.out()));
    const auto *views = static_cast<const tutti_string_view *>(tutti_tensor_get_data(row.get()));
    for (size_t i = 0; i < flat.scalars.size(); ++i) {
      const std::string_view text(views[i].data, views[i].size);
      if (!IsBytes(flat.scalars[i]) || flat.scalars[i].at("bytes") != text) throw mismatch();
    }
    return;
  }
  const std::vector<double> numbers = Numbers(tensor);
  for (size_t i = 0; i < flat.scalars.size(); ++i) {
    if (IsBytes(flat.scalars[i])) throw mismatch();
    const double number = NumberOf(flat.scalars[i]);
    const bool equal =
        std::isnan(number) ? std::isnan(numbers[i]) : std::abs(number - numbers[i]) <= tolerance;
    if (!equal) throw mismatch();
  }
}

// A dataset that stands in an element, with its elements.
void CompareDataset(const Json &expected, const Value &found, double tolerance, tutti_dtype dtype) {
  if (tutti_value_get_kind(found.get()) != TUTTI_NODE_LEAF ||
      tutti_value_get_leaf_kind(found.get(), 0) != TUTTI_LEAF_DATASET) {
    throw Mismatch("expected the dataset " + expected.dump() + ", got " + ToText(found));
  }
  const std::vector<Value> elements =
      Elements(Dataset::Share(tutti_value_get_leaf_dataset(found.get(), 0)));
  if (elements.size() != expected.size()) {
    throw Mismatch("expected the dataset " + expected.dump() + ", got " +
                   std::to_string(elements.size()) + " elements");
  }
  for (size_t i = 0; i < elements.size(); ++i) Compare(expected[i], elements[i], tolerance, dtype);
}

// ---- sparse and ragged tensors

Tensor Integers(const std::vector<int64_t> &dims, const Json &json) {
  std::vector<double> numbers;
  for (const Json &scalar : Flatten(json).scalars) numbers.push_back(scalar.get<double>());
  return TensorOf(TUTTI_DTYPE_INT64, dims, numbers);
}

Value SparseOf(const Json &json, tutti_dtype dtype) {
  CheckKeys(json, {"indices", "values", "dense_shape"});
  const auto count = static_cast<int64_t>(json.at("values").size());
  const auto rank = static_cast<int64_t>(json.at("dense_shape").size());
  const Tensor indices = Integers({count, rank}, json.at("indices"));
  const Tensor values = TensorOfJson(json.at("values"), dtype);
  const Tensor dense_shape = Integers({rank}, json.at("dense_shape"));
  Value value;
  Check(tutti_value_create_sparse(indices.get(), values.get(), dense_shape.get(), value.out()));
  return value;
}

// Nested lists as the row_splits of each level, the outermost first, and the items of them all.
struct RaggedLists {
  explicit RaggedLists(const Json &lists) : items(lists) {
    while (std::any_of(items.begin(), items.end(), [](const Json &item) {
      return item.is_array();
    })) {
      Json next = Json::array();
      Json &own = splits.emplace_back(Json::array({0}));
      for (const Json &list : items) {
        for (const Json &item : list) next.push_back(item);
        own.push_back(next.size());
      }
      items = std::move(next);
    }
  }
  std::vector<Json> splits;
  Json items;
};

Value RaggedOf(const Json &json, tutti_dtype dtype) {
  const RaggedLists lists(json);
  Value value = ValueOf(TensorOfJson(lists.items, dtype));
  for (size_t level = lists.splits.size(); level-- > 0;) {
    const Json &own = lists.splits[level];
    Value outer;
    Check(tutti_value_create_ragged(
        value.get(), Integers({static_cast<int64_t>(own.size())}, own).get(), outer.out()));
    value = std::move(outer);
  }
  return value;
}

Value Part(const Value &value, const char *key) {
  Value part;
  Check(tutti_value_find(value.get(), key, part.out()));
  return part;
}

bool IsNamed(const Value &value, std::string_view name) {
  return tutti_value_get_kind(value.get()) == TUTTI_NODE_NAMED_TUPLE &&
         name == tutti_treespec_get_type_name(tutti_value_get_treespec(value.get()));
}

void CompareSparse(const Json &expected, const Value &found, double tolerance, tutti_dtype dtype) {
  CheckKeys(expected, {"indices", "values", "dense_shape"});
  if (!IsNamed(found, TUTTI_SPARSE_TYPE_NAME)) {
    throw Mismatch("expected the sparse tensor " + expected.dump() + ", got " + ToText(found));
  }
  CompareTensor(expected.at("indices"), Part(found, "indices"), 0.0, TUTTI_DTYPE_INT64);
  CompareTensor(expected.at("values"), Part(found, "values"), tolerance, dtype);
  CompareTensor(expected.at("dense_shape"), Part(found, "dense_shape"), 0.0, TUTTI_DTYPE_INT64);
}

void CompareRagged(const Json &expected, const Value &found, double tolerance, tutti_dtype dtype) {
  const RaggedLists lists(expected);
  Value level = Part(found, "");
  for (const Json &splits : lists.splits) {
    if (!IsNamed(level, TUTTI_RAGGED_TYPE_NAME)) {
      throw Mismatch("expected the ragged tensor " + expected.dump() + ", got " + ToText(found));
    }
    CompareTensor(splits, Part(level, "row_splits"), 0.0, TUTTI_DTYPE_INVALID);
    level = Part(level, "values");
  }
  CompareTensor(lists.items, level, tolerance, dtype);
}

}  // namespace

tutti_dtype DTypeOf(const std::string &name) {
  for (tutti_dtype dtype = TUTTI_DTYPE_BOOL; tutti_dtype_get_size(dtype) != 0; ++dtype) {
    if (name == tutti_dtype_get_name(dtype)) return dtype;
  }
  throw NotCovered("dtype " + name);
}

Value ValueOf(const Json &json, tutti_dtype dtype) {
  if (json.is_object()) CheckKeys(json, {"t", "d", "dtype", "v", "bytes", "sparse", "ragged"});
  Value value;
  if (json.is_null()) {
    Check(tutti_value_create_none(value.out()));
    return value;
  }
  if (json.is_object() && (json.contains("t") || json.contains("d"))) {
    const bool is_tuple = json.contains("t");
    std::vector<std::string> names;
    std::vector<Value> children;
    for (const auto &[key, child] : json.at(is_tuple ? "t" : "d").items()) {
      names.push_back(key);
      children.push_back(ValueOf(child, dtype));
    }
    std::vector<const char *> keys;
    std::vector<const tutti_value *> handles;
    for (const std::string &name : names) keys.push_back(name.c_str());
    for (const Value &child : children) handles.push_back(child.get());
    Check(is_tuple
              ? tutti_value_create_tuple(handles.size(), handles.data(), value.out())
              : tutti_value_create_dict(handles.size(), keys.data(), handles.data(), value.out()));
    return value;
  }
  if (json.is_object() && json.contains("sparse")) return SparseOf(json.at("sparse"), dtype);
  if (json.is_object() && json.contains("ragged")) return RaggedOf(json.at("ragged"), dtype);
  if (json.is_object() && json.contains("dtype")) {
    return ValueOf(TensorOfJson(json.at("v"), DTypeOf(json.at("dtype"))));
  }
  return ValueOf(TensorOfJson(json, dtype));
}

Value ValueOf(const Tensor &tensor) {
  Value value;
  Check(tutti_value_create_tensor(tensor.get(), value.out()));
  return value;
}

std::vector<double> Numbers(const tutti_tensor *tensor) {
  Tensor numbers;
  Check(tutti_tensor_cast(tensor, TUTTI_DTYPE_FLOAT64, numbers.out()));
  const auto *data = static_cast<const double *>(tutti_tensor_get_data(numbers.get()));
  return std::vector<double>(data, data + tutti_tensor_get_element_count(tensor));
}

Tensor TensorOf(tutti_dtype dtype, const std::vector<int64_t> &dims,
                const std::vector<double> &numbers) {
  Tensor doubles, tensor;
  Check(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_FLOAT64, dims.size(), dims.data(),
                                      numbers.data(), numbers.size() * sizeof(double),
                                      doubles.out()));
  Check(tutti_tensor_cast(doubles.get(), dtype, tensor.out()));
  return tensor;
}

const tutti_tensor *TensorIn(const Value &value) {
  const tutti_tensor *tensor = nullptr;
  Check(tutti_value_find_tensor(value.get(), "", &tensor));
  return tensor;
}

std::string ToText(const Value &value) {
  Bytes text;
  Check(tutti_value_to_string(value.get(), text.out()));
  return tutti_bytes_get_view(text.get()).data;
}

void Compare(const Json &expected, const Value &found, double tolerance, tutti_dtype dtype) {
  if (!expected.is_object() || IsBytes(expected)) {
    return CompareTensor(expected, found, tolerance, dtype);
  }
  CheckKeys(expected, {"t", "d", "ds", "dtype", "v", "sparse", "ragged"});
  if (expected.contains("sparse")) {
    return CompareSparse(expected.at("sparse"), found, tolerance, dtype);
  }
  if (expected.contains("ragged")) {
    return CompareRagged(expected.at("ragged"), found, tolerance, dtype);
  }
  if (expected.contains("ds")) return CompareDataset(expected.at("ds"), found, tolerance, dtype);
  if (expected.contains("dtype")) {
    return CompareTensor(expected.at("v"), found, tolerance, DTypeOf(expected.at("dtype")));
  }
  const bool is_tuple = expected.contains("t");
  const Json &parts = expected.at(is_tuple ? "t" : "d");
  const tutti_node_kind kind = is_tuple ? TUTTI_NODE_TUPLE : TUTTI_NODE_DICT;
  if (tutti_value_get_kind(found.get()) != kind ||
      tutti_value_get_child_count(found.get()) != parts.size()) {
    throw Mismatch("expected " + expected.dump() + ", got " + ToText(found));
  }
  for (const auto &[key, part] : parts.items()) {
    Value child;
    Check(tutti_value_find(found.get(), key.c_str(), child.out()));
    Compare(part, child, tolerance, dtype);
  }
}

void CheckKeys(const Json &object, std::initializer_list<const char *> known) {
  for (const auto &[key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw NotCovered("the field " + key);
    }
  }
}

bool IsError(const Json &expected) { return expected.is_object() && expected.contains("error"); }

bool FailsAsExpected(const Json &expected, const std::function<void()> &body) {
  if (!IsError(expected)) {
    body();
    return false;
  }
  CheckKeys(expected, {"error", "message_names"});
  try {
    body();
  } catch (const Failure &failure) {
    if (tutti_code_get_name(failure.code) != expected.at("error")) {
      throw Mismatch(std::string("failed with ") + tutti_code_get_name(failure.code) + ": " +
                     failure.what());
    }
    for (const std::string name : expected.value("message_names", Json::array())) {
      if (std::string_view(failure.what()).find(name) == std::string_view::npos) {
        throw Mismatch("the message does not name " + name + ": " + failure.what());
      }
    }
    return true;
  }
  throw Mismatch("expected the error " + expected.at("error").get<std::string>());
}

}  // namespace conformance

#include "functions.h"

#include <cctype>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "specs.h"
#include "strategies.h"
#include "traced.h"

namespace conformance {
namespace {

// A tensor of the dtype and dims of `like`.
Value Like(const tutti_tensor *like, const std::vector<double> &numbers) {
  const int64_t *dims = tutti_tensor_get_dims(like);
  return ValueOf(TensorOf(tutti_tensor_get_dtype(like),
                          std::vector<int64_t>(dims, dims + tutti_tensor_get_rank(like)), numbers));
}

Body Predicate(std::function<bool(double)> fn) {
  return [fn = std::move(fn)](tutti_context *, const Value &in) {
    return ValueOf(TensorOf(TUTTI_DTYPE_BOOL, {}, {fn(Numbers(TensorIn(in)).at(0)) ? 1.0 : 0.0}));
  };
}

Value FillSelf(tutti_context *, const Value &in) {
  const double number = Numbers(TensorIn(in)).at(0);
  const auto copies = static_cast<size_t>(number);
  return ValueOf(TensorOf(tutti_tensor_get_dtype(TensorIn(in)), {static_cast<int64_t>(copies)},
                          std::vector<double>(copies, number)));
}

Value Upper(tutti_context *, const Value &in) {
  const auto *view = static_cast<const tutti_string_view *>(tutti_tensor_get_data(TensorIn(in)));
  std::string text(view->data, view->size);
  for (char &c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return ValueOf(Json{{"bytes", text}});
}

Value Length(tutti_context *, const Value &in) {
  const auto *view = static_cast<const tutti_string_view *>(tutti_tensor_get_data(TensorIn(in)));
  return ValueOf(TensorOf(TUTTI_DTYPE_INT64, {}, {static_cast<double>(view->size)}));
}

// x, but an error for the element that is `wrong`.
Body FailAt(double wrong) {
  return [wrong](tutti_context *, const Value &in) {
    if (Numbers(TensorIn(in)).at(0) == wrong) {
      throw Failure(TUTTI_INVALID_ARGUMENT, "fail_at: this is the element " + ToText(in));
    }
    return in;
  };
}

Value Part(const Value &in, size_t index) {
  Value part;
  Check(tutti_value_child(in.get(), index, part.out()));
  return part;
}

Body Component(const Json &which) {
  return [which](tutti_context *, const Value &in) {
    if (!which.is_string()) return Part(in, which);
    Value part;
    Check(tutti_value_find(in.get(), which.get<std::string>().c_str(), part.out()));
    return part;
  };
}

Value Square(const Value &in) {
  return Elementwise([](double x) { return x * x; })(nullptr, in);
}

Value WithSquare(tutti_context *, const Value &in) {
  const Value square = Square(in);
  const tutti_value *const parts[] = {in.get(), square.get()};
  Value pair;
  Check(tutti_value_create_tuple(2, parts, pair.out()));
  return pair;
}

Value AsDict(tutti_context *, const Value &in) {
  const Value square = Square(in);
  const char *const keys[] = {"x", "square"};
  const tutti_value *const parts[] = {in.get(), square.get()};
  Value dict;
  Check(tutti_value_create_dict(2, keys, parts, dict.out()));
  return dict;
}

Value Swap(tutti_context *, const Value &in) {
  const Value first = Part(in, 0), second = Part(in, 1);
  const tutti_value *const parts[] = {second.get(), first.get()};
  Value pair;
  Check(tutti_value_create_tuple(2, parts, pair.out()));
  return pair;
}

Value AddComponents(tutti_context *, const Value &in) {
  const Value first = Part(in, 0), second = Part(in, 1);
  std::vector<double> sums = Numbers(TensorIn(first));
  const std::vector<double> others = Numbers(TensorIn(second));
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += others.at(i);
  return Like(TensorIn(first), sums);
}

Value DatasetValue(const Dataset &dataset) {
  Value value;
  Check(tutti_value_create_dataset(dataset.get(), value.out()));
  return value;
}

// `count` numbers from the element on; null: those below it.
Body CountFrom(const Json &count) {
  return [count](tutti_context *, const Value &in) {
    const auto x = static_cast<int64_t>(Numbers(TensorIn(in)).at(0));
    const int64_t start = count.is_null() ? 0 : x;
    const int64_t stop = count.is_null() ? x : x + count.get<int64_t>();
    Dataset dataset;
    Check(tutti_dataset_create_range(CurrentRuntime(), start, stop, 1, nullptr, dataset.out()));
    return DatasetValue(dataset);
  };
}

Value Slices(tutti_context *, const Value &in) {
  Dataset dataset;
  Check(tutti_dataset_create_from_tensor_slices(CurrentRuntime(), in.get(), nullptr,
                                                dataset.out()));
  return DatasetValue(dataset);
}

Body Repeated(int64_t count) {
  return [count](tutti_context *, const Value &in) {
    Dataset dataset;
    Check(tutti_dataset_create_from_tensors(CurrentRuntime(), in.get(), nullptr, dataset.out()));
    Check(tutti_dataset_repeat(dataset.out(), count, nullptr));
    return DatasetValue(dataset);
  };
}

Dataset DatasetIn(const Value &in) {
  return Dataset::Share(tutti_value_get_leaf_dataset(in.get(), 0));
}

// The elements of a structure of windows.
Dataset Zipped(const Value &in) {
  Dataset dataset;
  Check(tutti_dataset_create_zip(CurrentRuntime(), in.get(), nullptr, dataset.out()));
  return dataset;
}

Value InBatches(Dataset dataset, int64_t size) {
  Check(tutti_dataset_batch(dataset.out(), size, nullptr));
  return DatasetValue(dataset);
}

// A dataset of one name.
Dataset NameIn(const Value &in) {
  Dataset dataset;
  Check(tutti_dataset_create_from_tensors(CurrentRuntime(), in.get(), nullptr, dataset.out()));
  return dataset;
}

Value TextLinesOf(tutti_context *, const Value &path) {
  Dataset dataset;
  Check(tutti_dataset_create_text_line(CurrentRuntime(), NameIn(path).get(), nullptr,
                                       dataset.out()));
  return DatasetValue(dataset);
}

Value RecordsOf(tutti_context *, const Value &path) {
  Dataset dataset;
  Check(tutti_dataset_create_tf_record(CurrentRuntime(), NameIn(path).get(), nullptr,
                                       dataset.out()));
  Check(tutti_dataset_map(dataset.out(), NumberOfRecord().get(), nullptr));
  return DatasetValue(dataset);
}

// The elements of the datasets that a snapshot's shards are, of `cycle_length` of them in turn;
// null: one after the other.
Body ReadShards(const Json &cycle_length) {
  return [cycle_length](tutti_context *, const Value &in) {
    const Body each = [](tutti_context *, const Value &shard) { return shard; };
    Function itself;
    Check(tutti_function_create(CurrentRuntime(), StoredCallback(each), nullptr, itself.out()));
    Dataset shards = DatasetIn(in);
    if (cycle_length.is_null()) {
      Check(tutti_dataset_flat_map(shards.out(), itself.get(), nullptr));
    } else {
      tutti_interleave_options options = TUTTI_INTERLEAVE_OPTIONS_INIT;
      options.cycle_length = {1, cycle_length.get<int64_t>()};
      Check(tutti_dataset_interleave(shards.out(), itself.get(), &options));
    }
    return DatasetValue(shards);
  };
}

struct Named {
  Body body;
  Spec output;  // none: a predicate, or the function gives datasets
};

Named FindPredicate(const std::string &name, const Json &arg) {
  if (name == "always_true") {
    return {[](tutti_context *, const Value &) { return ValueOf(Json(true)); }, {}};
  }
  if (name == "even") return {Predicate([](double x) { return std::fmod(x, 2) == 0; }), {}};
  if (name == "less") {
    return {Predicate([limit = arg.get<double>()](double x) { return x < limit; }), {}};
  }
  if (name == "greater") {
    return {Predicate([limit = arg.get<double>()](double x) { return x > limit; }), {}};
  }
  if (name == "equal") {
    return {Predicate([other = arg.get<double>()](double x) { return x == other; }), {}};
  }
  throw NotCovered("the function " + name);
}

Named Find(const Json &op, const Spec &input) {
  const std::string name = op.at("fn");
  const Json arg = op.value("arg", Json());
  if (name == "add") {
    return {Elementwise([add = arg.get<double>()](double x) { return x + add; }), input};
  }
  if (name == "square") return {Elementwise([](double x) { return x * x; }), input};
  if (name == "mod") {  // of the divisor's sign
    return {Elementwise([by = arg.get<double>()](double x) { return x - std::floor(x / by) * by; }),
            input};
  }
  if (name == "identity") return {[](tutti_context *, const Value &in) { return in; }, input};
  if (name == "fail_at") return {FailAt(arg), input};
  if (name == "fill_self") {
    return {FillSelf,
            SpecOfTensor(tutti_spec_get_leaf_dtype(input.get(), 0), {TUTTI_UNKNOWN_DIMENSION})};
  }
  if (name == "upper") return {Upper, SpecOfTensor(TUTTI_DTYPE_BYTES, {})};
  if (name == "length") return {Length, SpecOfTensor(TUTTI_DTYPE_INT64, {})};
  if (name == "with_square") return {WithSquare, TupleSpec({input, input})};
  if (name == "as_dict") return {AsDict, DictSpec({{"x", input}, {"square", input}})};
  if (name == "swap") return {Swap, TupleSpec({PartSpec(input, 1), PartSpec(input, 0)})};
  if (name == "add_components") return {AddComponents, PartSpec(input, 0)};
  if (name == "component") return {Component(arg), PartSpec(input, arg)};
  if (name == "constant") {
    const Value constant = ValueOf(arg);
    Spec spec;
    Check(tutti_spec_create_from_value(constant.get(), spec.out()));
    return {[constant](tutti_context *, const Value &) { return constant; }, spec};
  }
  if (name == "range" || name == "count_from") {
    Spec numbers;
    Check(tutti_spec_create_dataset(SpecOfTensor(TUTTI_DTYPE_INT64, {}).get(), numbers.out()));
    return {CountFrom(name == "range" ? Json() : arg), numbers};
  }
  if (name == "text_lines") return {TextLinesOf, {}};
  if (name == "records") return {RecordsOf, {}};
  if (name == "from_tensor_slices") return {Slices, {}};
  if (name == "from_tensors_repeat") return {Repeated(arg), {}};
  if (name == "batch") {
    return {[size = arg.get<int64_t>()](tutti_context *, const Value &in) {
              return InBatches(DatasetIn(in), size);
            },
            {}};
  }
  if (name == "zip") {
    return {[](tutti_context *, const Value &in) { return DatasetValue(Zipped(in)); }, {}};
  }
  if (name == "zip_batch") {
    return {[size = arg.get<int64_t>()](tutti_context *, const Value &in) {
              return InBatches(Zipped(in), size);
            },
            {}};
  }
  if (name == "shard_mod") {
    return {Elementwise([by = arg.get<double>()](double x) { return std::fmod(x, by); }),
            SpecOfTensor(TUTTI_DTYPE_INT64, {})};
  }
  if (name == "flat" || name == "interleaved") return {ReadShards(arg), {}};
  if (name == "fill_self_slices") {
    return {[](tutti_context *context, const Value &in) {
              return Slices(context, FillSelf(context, in));
            },
            {}};
  }
  return FindPredicate(name, arg);
}

}  // namespace

Body Elementwise(std::function<double(double)> fn) {
  return [fn = std::move(fn)](tutti_context *, const Value &in) {
    std::vector<double> numbers = Numbers(TensorIn(in));
    for (double &number : numbers) number = fn(number);
    return Like(TensorIn(in), numbers);
  };
}

namespace {

Value ChildOf(const Value &value, size_t i) {
  Value child;
  Check(tutti_value_child(value.get(), i, child.out()));
  return child;
}

// x + y, in the dtype of x.
Value Sum(const Value &x, const Value &y) {
  std::vector<double> numbers = Numbers(TensorIn(x));
  const std::vector<double> others = Numbers(TensorIn(y));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += others[i];
  return Like(TensorIn(x), numbers);
}

Value OneMore(const Value &x) {
  return Elementwise([](double number) { return number + 1; })(nullptr, x);
}

Value Pair(const Value &first, const Value &second) {
  const tutti_value *parts[] = {first.get(), second.get()};
  Value pair;
  Check(tutti_value_create_tuple(2, parts, pair.out()));
  return pair;
}

// Pairs of the key and an element of `dataset`.
Dataset WithKey(const Value &key, const Dataset &dataset) {
  Dataset keys, pairs;
  Check(tutti_dataset_create_from_tensors(CurrentRuntime(), key.get(), nullptr, keys.out()));
  Check(tutti_dataset_repeat(keys.out(), -1, nullptr));
  const Value both = Pair(DatasetValue(keys), DatasetValue(dataset));
  Check(tutti_dataset_create_zip(CurrentRuntime(), both.get(), nullptr, pairs.out()));
  return pairs;
}

Dataset OfWindow(const std::string &name, int64_t arg, const Value &key, Dataset window) {
  if (name == "window_take") {
    Check(tutti_dataset_take(window.out(), arg, nullptr));
  } else if (name == "window_padded_batch") {
    Check(tutti_dataset_padded_batch(window.out(), arg, nullptr));
  } else {
    Check(tutti_dataset_batch(window.out(), arg, nullptr));
  }
  return name == "key_and_batch" ? WithKey(key, window) : window;
}

// `dataset` mapped by one call of the library on tensors.
template <class Change>
void MapTensors(Change change, tutti_dtype dtype, Dataset *dataset) {
  Spec spec;
  Check(tutti_spec_create_tensor(dtype, 0, nullptr, spec.out()));
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.output_spec = spec.get();
  Function function;
  Check(tutti_function_create(CurrentRuntime(),
                              StoredCallback([change](tutti_context *, const Value &in) {
                                Tensor made;
                                Check(change(TensorIn(in), made.out()));
                                return ValueOf(made);
                              }),
                              &options, function.out()));
  Check(tutti_dataset_map(dataset->out(), function.get(), nullptr));
}

// The window's elements, written to a file of their key and read from it.
Dataset WrittenAndRead(const std::string &prefix, const Value &key, Dataset window) {
  const tutti_string_view text = {prefix.data(), prefix.size()};
  Tensor begin, number, joined;
  Check(tutti_tensor_create_from_strings(CurrentRuntime(), 0, nullptr, 1, &text, begin.out()));
  Check(tutti_tensor_as_string(TensorIn(key), nullptr, number.out()));
  const tutti_tensor *parts[] = {begin.get(), number.get()};
  Check(tutti_tensor_join_strings(2, parts, nullptr, joined.out()));
  const auto *view = static_cast<const tutti_string_view *>(tutti_tensor_get_data(joined.get()));
  const std::string path(view->data, view->size);
  MapTensors(tutti_tensor_serialize, TUTTI_DTYPE_BYTES, &window);
  RecordWriter writer;
  Check(tutti_tf_record_writer_create(CurrentRuntime(), path.c_str(), nullptr, writer.out()));
  Check(tutti_tf_record_writer_write_dataset(writer.get(), window.get(), nullptr));
  Check(tutti_tf_record_writer_close(writer.get()));
  Dataset read;
  const char *paths[] = {path.c_str()};
  Check(tutti_dataset_create_tf_record_from_paths(CurrentRuntime(), 1, paths, nullptr,
                                                  read.out()));
  MapTensors(
      [](const tutti_tensor *bytes, tutti_tensor **out) {
        return tutti_tensor_parse(bytes, TUTTI_DTYPE_INT64, out);
      },
      TUTTI_DTYPE_INT64, &read);
  return read;
}

Value Appended(const Value &state, const Value &x) {
  std::vector<double> numbers = Numbers(TensorIn(state));
  numbers.push_back(Numbers(TensorIn(x)).at(0));
  return ValueOf(TensorOf(tutti_tensor_get_dtype(TensorIn(state)),
                          {static_cast<int64_t>(numbers.size())}, numbers));
}

Value Larger(const Value &x, const Value &y) {
  return Numbers(TensorIn(x)).at(0) < Numbers(TensorIn(y)).at(0) ? y : x;
}

Value AsFloat(const Value &x) {
  return ValueOf(TensorOf(TUTTI_DTYPE_FLOAT32, {}, Numbers(TensorIn(x))));
}

}  // namespace

Function KeyFunction(const Json &op, const Spec &input) {
  const std::string name = op.at("key_func");
  const Json arg = op.value("key_arg", Json());
  if (name != "index_mod") return NamedFunction(Json{{"fn", name}, {"arg", arg}}, input);
  if (Function traced = TracedIndexKey(arg.get<int64_t>(), input)) return traced;
  const Body mod = Find(Json{{"fn", "mod"}, {"arg", arg}}, input).body;
  Function function;
  Check(tutti_function_create(CurrentRuntime(),
                              StoredCallback([mod](tutti_context *context, const Value &in) {
                                return mod(context, ChildOf(in, 0));
                              }),
                              nullptr, function.out()));
  return function;
}

Function WindowFunction(const Json &op, const Spec &input) {
  if (Function traced = TracedWindowFunction(op, input)) return traced;
  const std::string name = op.at("reduce_func");
  if (name == "write_and_read") {
    Function function;
    Check(tutti_function_create(
        CurrentRuntime(),
        StoredCallback([prefix = op.at("reduce_arg").get<std::string>()](tutti_context *,
                                                                         const Value &in) {
          return DatasetValue(WrittenAndRead(prefix, ChildOf(in, 0), DatasetIn(ChildOf(in, 1))));
        }),
        nullptr, function.out()));
    return function;
  }
  for (const char *known : {"window_batch", "window_take", "window_padded_batch",
                            "key_and_batch"}) {
    if (name != known) continue;
    Function function;
    Check(tutti_function_create(
        CurrentRuntime(),
        StoredCallback([name, arg = op.at("reduce_arg").get<int64_t>()](tutti_context *,
                                                                        const Value &in) {
          return DatasetValue(
              OfWindow(name, arg, ChildOf(in, 0), DatasetIn(ChildOf(in, 1))));
        }),
        nullptr, function.out()));
    return function;
  }
  throw NotCovered("the function " + name);
}

Function Reducer(const std::string &name, const Value &initial, const Spec &input) {
  if (Function traced = TracedReducer(name, initial, input)) return traced;
  using Step = Value (*)(const Value &state, const Value &x);
  static const auto *const steps = new std::map<std::string, Step>{
      {"count", [](const Value &state, const Value &) { return OneMore(state); }},
      {"sum", Sum},
      {"max", Larger},
      {"last", [](const Value &, const Value &x) { return x; }},
      {"append", Appended},
      {"sum_and_count",
       [](const Value &state, const Value &x) {
         return Pair(Sum(ChildOf(state, 0), x), OneMore(ChildOf(state, 1)));
       }},
      {"sum_components",
       [](const Value &state, const Value &pair) {
         return Sum(Sum(state, ChildOf(pair, 0)), ChildOf(pair, 1));
       }},
      {"to_pair", [](const Value &state, const Value &) { return Pair(state, state); }},
      {"to_float", [](const Value &state, const Value &) { return AsFloat(state); }}};
  const auto found = steps->find(name);
  if (found == steps->end()) throw NotCovered("the function " + name);
  Function function;
  Check(tutti_function_create(CurrentRuntime(),
                              StoredCallback([step = found->second](tutti_context *,
                                                                    const Value &in) {
                                return step(ChildOf(in, 0), ChildOf(in, 1));
                              }),
                              nullptr, function.out()));
  return function;
}

tutti_status *CallBody(tutti_context *context, const tutti_value *in, tutti_value **out,
                       void *body) noexcept {
  try {
    *out = (*static_cast<Body *>(body))(context, Value::Share(in)).release();
    return nullptr;
  } catch (const Failure &failure) {
    return tutti_status_create(failure.code, failure.what());
  } catch (const std::exception &error) {
    return tutti_status_create(TUTTI_UNKNOWN, error.what());
  }
}

tutti_callback StoredCallback(Body body) {
  return {CallBody, new Body(std::move(body)),
          [](void *data) { delete static_cast<Body *>(data); }};
}

Function NamedFunction(const Json &op, const Spec &input) {
  if (Function traced = TracedFunction(op, input)) return traced;
  Named named = Find(op, input);
  const std::string fingerprint =
      op.at("fn").get<std::string>() + " " + op.value("arg", Json()).dump();
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.output_spec = named.output.get();
  options.fingerprint = fingerprint.c_str();
  Function function;
  Check(tutti_function_create(CurrentRuntime(), StoredCallback(std::move(named.body)), &options,
                              function.out()));
  return function;
}

Function NumberOfRecord() {
  const Body read = [](tutti_context *, const Value &in) {
    const auto *view = static_cast<const tutti_string_view *>(tutti_tensor_get_data(TensorIn(in)));
    int64_t number;
    if (view->size != sizeof(number)) throw Mismatch("a record of another size");
    std::memcpy(&number, view->data, sizeof(number));
    Value value;
    Check(tutti_value_create_int64(number, value.out()));
    return value;
  };
  const Spec spec = SpecOfTensor(TUTTI_DTYPE_INT64, {});
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.output_spec = spec.get();
  Function function;
  Check(tutti_function_create(CurrentRuntime(), StoredCallback(read), &options, function.out()));
  return function;
}

}  // namespace conformance

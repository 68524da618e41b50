#include "functions.h"

#include <cctype>
#include <cstring>
#include <string>
#include <string_view>

#include "strategies.h"

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

Spec SpecOfTensor(tutti_dtype dtype, std::vector<int64_t> dims) {
  Spec spec;
  Check(
      tutti_spec_create_tensor(dtype, static_cast<int64_t>(dims.size()), dims.data(), spec.out()));
  return spec;
}

// The spec of component `index` of the elements of `input`, which is a tuple of leaves.
Spec ComponentSpec(const Spec &input, size_t index) {
  const int64_t rank = tutti_spec_get_leaf_rank(input.get(), index);
  Spec spec;
  Check(tutti_spec_create_tensor(tutti_spec_get_leaf_dtype(input.get(), index), rank,
                                 tutti_spec_get_leaf_dims(input.get(), index), spec.out()));
  return spec;
}

struct Named {
  Body body;
  Spec output;  // none: a predicate
};

Named Find(const Json &op, const Spec &input) {
  const std::string name = op.at("fn");
  const Json arg = op.value("arg", Json());
  if (name == "add") {
    return {Elementwise([add = arg.get<double>()](double x) { return x + add; }), input};
  }
  if (name == "square") return {Elementwise([](double x) { return x * x; }), input};
  if (name == "less") {
    return {Predicate([limit = arg.get<double>()](double x) { return x < limit; }), {}};
  }
  if (name == "equal") {
    return {Predicate([other = arg.get<double>()](double x) { return x == other; }), {}};
  }
  if (name == "always_true") return {Predicate([](double) { return true; }), {}};
  if (name == "fill_self") {
    return {FillSelf,
            SpecOfTensor(tutti_spec_get_leaf_dtype(input.get(), 0), {TUTTI_UNKNOWN_DIMENSION})};
  }
  if (name == "upper") return {Upper, SpecOfTensor(TUTTI_DTYPE_BYTES, {})};
  if (name == "component") {
    const size_t index = arg.get<size_t>();
    return {[index](tutti_context *, const Value &in) {
              Value child;
              Check(tutti_value_child(in.get(), index, child.out()));
              return child;
            },
            ComponentSpec(input, index)};
  }
  if (name == "constant") {
    const Value constant = ValueOf(arg);
    Spec spec;
    Check(tutti_spec_create_from_value(constant.get(), spec.out()));
    return {[constant](tutti_context *, const Value &) { return constant; }, spec};
  }
  throw NotCovered("the function " + name);
}

}  // namespace

Body Elementwise(std::function<double(double)> fn) {
  return [fn = std::move(fn)](tutti_context *, const Value &in) {
    std::vector<double> numbers = Numbers(TensorIn(in));
    for (double &number : numbers) number = fn(number);
    return Like(TensorIn(in), numbers);
  };
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
  Named named = Find(op, input);
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.output_spec = named.output.get();
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

// Expressions from C: node by node into a pipeline, and what is refused.
#include <cstddef>
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using Trace = Handle<tutti_expression, tutti_expression_release>;
using Fn = Function;
using Element = Spec;
using Number = Tensor;

class ExpressionTest : public CInterfaceTest {
 protected:
  void SetUp() override {
    ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 0, nullptr, &element_));
    ASSERT_OK(tutti_expression_create(element_, &trace_));
    ASSERT_OK(tutti_expression_add_parameter(trace_, 0, &x_));
  }
  int64_t Constant(int64_t number) {
    Number tensor;
    int64_t node = -1;
    EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 0, nullptr, &number,
                                            sizeof(number), &tensor));
    EXPECT_OK(tutti_expression_add_constant(trace_, tensor, TUTTI_TRUE, &node));
    return node;
  }
  int64_t Of(const char *name, int64_t a, int64_t b) {
    const int64_t nodes[] = {a, b};
    int64_t node = -1;
    EXPECT_OK(tutti_expression_add_operation(trace_, name, 2, nodes, nullptr, &node));
    return node;
  }
  Fn Make(int64_t node) {
    Number tensor;
    Value result;
    Fn function;
    EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 0, nullptr, &node,
                                            sizeof(node), &tensor));
    EXPECT_OK(tutti_value_create_tensor(tensor, &result));
    EXPECT_OK(tutti_expression_create_function(trace_, result, &function));
    return function;
  }
  template <class T>
  static std::string TextOf(const T *object,
                            tutti_status *(*to_string)(const T *, tutti_bytes **)) {
    Bytes text;
    EXPECT_OK(to_string(object, &text));
    const tutti_string_view view = tutti_bytes_get_view(text);
    return std::string(view.data, view.size);
  }

  Element element_;
  Trace trace_;
  int64_t x_ = -1;
};

TEST_F(ExpressionTest, MapsAndFiltersNodeByNode) {
  const int64_t odd = Of("add", Of("multiply", x_, Constant(2)), Constant(1));
  Bytes text;
  ASSERT_OK(tutti_expression_to_string(trace_, odd, &text));
  EXPECT_EQ(std::string(tutti_bytes_get_view(text).data), "((x * 2) + 1)");
  const Fn twice_plus_one = Make(odd);
  const Fn by_three = Make(Of("equal", Of("remainder", x_, Constant(3)), Constant(0)));
  Dataset dataset;
  ASSERT_OK(tutti_dataset_create_range(nullptr, 0, 8, 1, nullptr, &dataset));
  ASSERT_OK(tutti_dataset_map(&dataset, twice_plus_one, nullptr));
  ASSERT_OK(tutti_dataset_filter(&dataset, by_three, nullptr));
  ASSERT_OK(tutti_dataset_batch(&dataset, 8, nullptr));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  Value batch;
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &batch));
  EXPECT_EQ(TextOf<tutti_value>(batch, tutti_value_to_string), "[3 9 15]");
}

TEST_F(ExpressionTest, TakesOptionsAndKnowsSpecs) {
  tutti_operation_options options = TUTTI_OPERATION_OPTIONS_INIT;
  const int64_t dims[] = {1, 1};
  options.number_count = 2;
  options.numbers = dims;
  int64_t square = -1, half = -1;
  ASSERT_OK(tutti_expression_add_operation(trace_, "reshape", 1, &x_, &options, &square));
  options = TUTTI_OPERATION_OPTIONS_INIT;
  options.dtype = TUTTI_DTYPE_FLOAT16;
  ASSERT_OK(tutti_expression_add_operation(trace_, "cast", 1, &square, &options, &half));
  Element spec;
  ASSERT_OK(tutti_expression_get_spec(trace_, half, &spec));
  EXPECT_EQ(TextOf<tutti_spec>(spec, tutti_spec_to_string), "float16[1,1]");
}

TEST_F(ExpressionTest, CallsNativeFunctionsAlone) {
  tutti_feature feature = TUTTI_FEATURE_INIT;
  feature.key = "a";
  feature.dtype = TUTTI_DTYPE_INT64;
  const tutti_feature *features[] = {&feature};
  Fn parse;
  ASSERT_OK(tutti_function_create_parse_example(nullptr, 1, features, &parse));
  int64_t node = -1;
  EXPECT_FAILS(tutti_expression_add_call(trace_, parse, x_, 0, &node), TUTTI_INVALID_ARGUMENT,
               "should be serialised examples");
  Element bytes;
  Trace trace;
  int64_t text = -1;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_BYTES, 0, nullptr, &bytes));
  ASSERT_OK(tutti_expression_create(bytes, &trace));
  ASSERT_OK(tutti_expression_add_parameter(trace, 0, &text));
  ASSERT_OK(tutti_expression_add_call(trace, parse, text, 0, &node));
  EXPECT_FAILS(tutti_expression_add_call(trace, parse, text, 1, &node), TUTTI_OUT_OF_RANGE,
               "gives 1 components");

  // The columns of a line; a column's key may be empty.
  tutti_feature column = TUTTI_FEATURE_INIT;
  column.key = "";
  column.dtype = TUTTI_DTYPE_FLOAT32;
  const tutti_feature *columns[] = {&column, &feature};
  const int64_t places[] = {0, 2};
  tutti_decode_csv_options options = TUTTI_DECODE_CSV_OPTIONS_INIT;
  options.field_delim = ";";
  Fn decode;
  ASSERT_OK(tutti_function_create_decode_csv(nullptr, 2, columns, 2, places, &options, &decode));
  ASSERT_OK(tutti_expression_add_call(trace, decode, text, 1, &node));
  options.field_delim = "ab";
  EXPECT_FAILS(tutti_function_create_decode_csv(nullptr, 2, columns, 0, nullptr, &options, &decode),
               TUTTI_INVALID_ARGUMENT, "expected one byte");
  Fn sequence;
  ASSERT_OK(tutti_function_create_parse_sequence_example(nullptr, 1, features, 1, &sequence));
  EXPECT_FAILS(tutti_expression_add_call(trace, sequence, text, 0, &node), TUTTI_INVALID_ARGUMENT,
               "is another one");
  EXPECT_FAILS(tutti_function_create_parse_sequence_example(nullptr, 1, features, 2, &sequence),
               TUTTI_INVALID_ARGUMENT, "expected 0 to 1");
  feature.kind = TUTTI_FEATURE_RAGGED;
  Fn ragged;
  ASSERT_OK(tutti_function_create_parse_sequence_example(nullptr, 1, features, 0, &ragged));
  feature.kind = TUTTI_FEATURE_SEQUENCE;
  EXPECT_FAILS(tutti_function_create_parse_sequence_example(nullptr, 1, features, 0, &ragged),
               TUTTI_INVALID_ARGUMENT, "a sequence of sequences");
}

TEST_F(ExpressionTest, ReadsFeaturesOfAnyLength) {
  tutti_feature feature = TUTTI_FEATURE_INIT;
  feature.key = "a";
  feature.dtype = TUTTI_DTYPE_INT64;
  feature.kind = TUTTI_FEATURE_VAR_LEN;
  const tutti_feature *features[] = {&feature};
  Fn parse;
  ASSERT_OK(tutti_function_create_parse_example(nullptr, 1, features, &parse));
  Element bytes, spec;
  Trace trace;
  int64_t text = -1, node = -1;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_BYTES, 0, nullptr, &bytes));
  ASSERT_OK(tutti_expression_create(bytes, &trace));
  ASSERT_OK(tutti_expression_add_parameter(trace, 0, &text));
  ASSERT_OK(tutti_expression_add_call(trace, parse, text, 0, &node));
  ASSERT_OK(tutti_expression_get_spec(trace, node, &spec));
  EXPECT_EQ(TextOf<tutti_spec>(spec, tutti_spec_to_string), "int64[?,1]");
  EXPECT_FAILS(tutti_expression_add_call(trace, parse, text, 3, &node), TUTTI_OUT_OF_RANGE,
               "gives 3 components");
  Fn refused;
  feature.kind = 7;
  EXPECT_FAILS(tutti_function_create_parse_example(nullptr, 1, features, &refused),
               TUTTI_INVALID_ARGUMENT, "there is no such kind");
  feature.kind = TUTTI_FEATURE_RAGGED;
  EXPECT_FAILS(tutti_function_create_decode_csv(nullptr, 1, features, 0, nullptr, nullptr,
                                                &refused),
               TUTTI_INVALID_ARGUMENT, "a field is fixed");
  // A program that was compiled before there were kinds.
  feature.struct_size = offsetof(tutti_feature, kind);
  Fn fixed;
  ASSERT_OK(tutti_function_create_parse_example(nullptr, 1, features, &fixed));
  Element one;
  ASSERT_OK(tutti_expression_add_call(trace, fixed, text, 0, &node));
  ASSERT_OK(tutti_expression_get_spec(trace, node, &one));
  EXPECT_EQ(TextOf<tutti_spec>(one, tutti_spec_to_string), "int64[]");
}

TEST_F(ExpressionTest, AppliesOneOperationAtOnce) {
  const int64_t two = 2;
  const int64_t numbers[] = {1, 2};
  Number seed, drawn, wrong;
  ASSERT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 1, &two, numbers,
                                          sizeof(numbers), &seed));
  tutti_operation_options options = TUTTI_OPERATION_OPTIONS_INIT;
  const int64_t dims[] = {3};
  options.number_count = 1;
  options.numbers = dims;
  const tutti_tensor *inputs[] = {seed};
  ASSERT_OK(tutti_operation_apply(nullptr, "stateless_random_bits", 1, inputs, &options, &drawn));
  EXPECT_EQ(TextOf<tutti_tensor>(drawn, tutti_tensor_to_string),
            "int32[3] [1105988140 1738052849 -335576002]");
  const tutti_string_view text = {"a,b", 3};
  Number line, parts;
  ASSERT_OK(tutti_tensor_create_from_strings(nullptr, 0, nullptr, 1, &text, &line));
  inputs[0] = line;
  options = TUTTI_OPERATION_OPTIONS_INIT;
  options.text = ",";
  ASSERT_OK(tutti_operation_apply(nullptr, "string_split", 1, inputs, &options, &parts));
  EXPECT_EQ(TextOf<tutti_tensor>(parts, tutti_tensor_to_string), R"(bytes[2] ["a" "b"])");
  // A pattern, and buckets.
  const tutti_string_view rewrite = {"<\\1>", 4};
  Number instead, written, bucket;
  ASSERT_OK(tutti_tensor_create_from_strings(nullptr, 0, nullptr, 1, &rewrite, &instead));
  const tutti_tensor *both[] = {line, instead};
  options.text = "([a-z])";
  ASSERT_OK(tutti_operation_apply(nullptr, "regex_replace", 2, both, &options, &written));
  EXPECT_EQ(TextOf<tutti_tensor>(written, tutti_tensor_to_string), R"(bytes[] "<a>,<b>")");
  options.text = "(";
  EXPECT_FAILS(tutti_operation_apply(nullptr, "regex_full_match", 1, inputs, &options, &wrong),
               TUTTI_INVALID_ARGUMENT, "regex_full_match: '(' is no pattern");
  const int64_t buckets[] = {INT64_MAX, 1, -2};
  options = TUTTI_OPERATION_OPTIONS_INIT;
  options.number_count = 3;
  options.numbers = buckets;
  ASSERT_OK(tutti_operation_apply(nullptr, "to_hash_bucket_strong", 1, inputs, &options, &bucket));
  EXPECT_FAILS(tutti_operation_apply(nullptr, "to_hash_bucket_fast", 1, inputs, &options, &wrong),
               TUTTI_INVALID_ARGUMENT, "a number of buckets");
  EXPECT_FAILS(tutti_operation_apply(nullptr, "plus", 1, inputs, nullptr, &wrong), TUTTI_NOT_FOUND,
               "no operation 'plus'");
  EXPECT_FAILS(tutti_operation_apply(nullptr, "add", 1, inputs, nullptr, &wrong),
               TUTTI_INVALID_ARGUMENT, "expected 2 inputs, got 1");
  EXPECT_FAILS(tutti_operation_apply(nullptr, "add", 0, nullptr, nullptr, &wrong),
               TUTTI_INVALID_ARGUMENT, "one or more tensors");
  const tutti_tensor *none[] = {nullptr};
  EXPECT_FAILS(tutti_operation_apply(nullptr, "exp", 1, none, nullptr, &wrong),
               TUTTI_INVALID_ARGUMENT, "tensors");
}

TEST_F(ExpressionTest, GivesDatasetsWhoseFunctionsCaptureItsNodes) {
  const auto number = [](int64_t of) {
    Value value;
    EXPECT_OK(tutti_value_create_int64(of, &value));
    return value;
  };
  const Value bounds[] = {number(Constant(0)), number(x_), number(Constant(1))};
  const tutti_value *parts[] = {bounds[0], bounds[1], bounds[2]};
  Value nodes;
  ASSERT_OK(tutti_value_create_tuple(3, parts, &nodes));
  Dataset inner;
  ASSERT_OK(tutti_expression_add_dataset(trace_, nullptr, "range", nullptr, nodes, &inner));
  Trace sum;
  int64_t y = -1, x = -1, node = -1;
  ASSERT_OK(tutti_expression_create(element_, &sum));
  ASSERT_OK(tutti_expression_add_parameter(sum, 0, &y));
  ASSERT_OK(tutti_expression_capture(sum, trace_, x_, &x));
  const int64_t both[] = {x, y};
  ASSERT_OK(tutti_expression_add_operation(sum, "add", 2, both, nullptr, &node));
  Fn add;
  ASSERT_OK(tutti_expression_create_function(sum, number(node), &add));
  ASSERT_OK(tutti_dataset_map(&inner, add, nullptr));
  Iterator iterator;
  EXPECT_FAILS(tutti_iterator_create(inner, nullptr, nullptr, &iterator),
               TUTTI_FAILED_PRECONDITION, "made of placeholders");
  Dataset taken;
  ASSERT_OK(tutti_expression_add_dataset(trace_, nullptr, "take", inner, number(x_), &taken));
  Fn gives;
  ASSERT_OK(tutti_expression_create_dataset_function(trace_, taken, &gives));
  Dataset outer;
  ASSERT_OK(tutti_dataset_create_range(nullptr, 0, 4, 1, nullptr, &outer));
  ASSERT_OK(tutti_dataset_flat_map(&outer, gives, nullptr));
  ASSERT_OK(tutti_dataset_batch(&outer, 9, nullptr));
  ASSERT_OK(tutti_iterator_create(outer, nullptr, nullptr, &iterator));
  Value batch;
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &batch));
  EXPECT_EQ(TextOf<tutti_value>(batch, tutti_value_to_string), "[1 2 3 3 4 5]");
  Element promised;
  ASSERT_OK(tutti_dataset_get_promised_spec(outer, &promised));
  EXPECT_EQ(TextOf<tutti_spec>(promised, tutti_spec_to_string), "int64[?]");

  EXPECT_FAILS(tutti_expression_add_dataset(trace_, nullptr, "shuffle", nullptr, nodes, &inner),
               TUTTI_NOT_FOUND, "'shuffle'");
  EXPECT_FAILS(tutti_expression_capture(trace_, trace_, x_, &x), TUTTI_INVALID_ARGUMENT, "own");
  Trace third;
  ASSERT_OK(tutti_expression_create(element_, &third));
  EXPECT_FAILS(tutti_expression_capture(sum, third, 0, &x), TUTTI_INVALID_ARGUMENT, "another");
  EXPECT_FAILS(tutti_expression_create_dataset_function(third, inner, &gives),
               TUTTI_INVALID_ARGUMENT, "another traced function");
  Dataset ranges;
  ASSERT_OK(tutti_expression_add_dataset(trace_, nullptr, "range", nullptr, nodes, &ranges));
  EXPECT_FAILS(tutti_expression_create_dataset_function(third, ranges, &gives),
               TUTTI_INVALID_ARGUMENT, "placeholders of another traced function");
}

TEST_F(ExpressionTest, RefusesWhatDoesNotFit) {
  int64_t node = -1;
  EXPECT_FAILS(tutti_expression_add_operation(trace_, "plus", 1, &x_, nullptr, &node),
               TUTTI_NOT_FOUND, "'plus'");
  EXPECT_FAILS(tutti_expression_add_operation(trace_, "add", 1, &x_, nullptr, &node),
               TUTTI_INVALID_ARGUMENT, "expected 2 inputs, got 1");
  EXPECT_FAILS(tutti_expression_add_operation(trace_, "add", 2, nullptr, nullptr, &node),
               TUTTI_INVALID_ARGUMENT, "nodes");
  EXPECT_FAILS(tutti_expression_add_operation(trace_, nullptr, 1, &x_, nullptr, &node),
               TUTTI_INVALID_ARGUMENT, "name");
  EXPECT_FAILS(tutti_expression_add_parameter(trace_, 1, &node), TUTTI_OUT_OF_RANGE, "number 1");
  EXPECT_FAILS(tutti_expression_add_parameter(nullptr, 0, &node), TUTTI_INVALID_ARGUMENT,
               "expression");
  tutti_operation_options options = TUTTI_OPERATION_OPTIONS_INIT;
  options.number_count = 1;
  EXPECT_FAILS(tutti_expression_add_operation(trace_, "sum", 1, &x_, &options, &node),
               TUTTI_INVALID_ARGUMENT, "numbers");
  Element spec;
  EXPECT_FAILS(tutti_expression_get_spec(trace_, 99, &spec), TUTTI_INVALID_ARGUMENT, "99");
  Value text;
  Fn function;
  ASSERT_OK(tutti_value_create_string({"a", 1}, &text));
  EXPECT_FAILS(tutti_expression_create_function(trace_, text, &function), TUTTI_INVALID_ARGUMENT,
               "expected nodes");
  Element unknown;
  Trace trace;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, TUTTI_UNKNOWN_RANK, nullptr, &unknown));
  EXPECT_FAILS(tutti_expression_create(unknown, &trace), TUTTI_INVALID_ARGUMENT, "known rank");
}

}  // namespace
}  // namespace tutti::capi_test

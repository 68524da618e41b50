// The cases of reduce.json and values.json.
#include <algorithm>
#include <string>
#include <vector>

#include "cases.h"
#include "functions.h"
#include "strategies.h"

namespace conformance {
namespace {

tutti_reduce_op ReduceOpOf(const std::string &name) {
  if (name == "SUM") return TUTTI_REDUCE_SUM;
  if (name == "MEAN") return TUTTI_REDUCE_MEAN;
  if (name == "MIN") return TUTTI_REDUCE_MIN;
  if (name == "MAX") return TUTTI_REDUCE_MAX;
  if (name == "PROD") return TUTTI_REDUCE_PROD;
  throw NotCovered("the reduction " + name);
}

Value PerReplica(const Strategy &strategy, const Json &components) {
  std::vector<Value> values;
  std::vector<const tutti_value *> handles;
  for (const Json &component : components) values.push_back(ValueOf(component));
  for (const Value &value : values) handles.push_back(value.get());
  Value distributed;
  Check(tutti_strategy_create_per_replica(strategy.get(), handles.size(), handles.data(),
                                          distributed.out()));
  return distributed;
}

Value Run(const Strategy &strategy, Body body, const Value &args) {
  Value results;
  Check(tutti_strategy_run(strategy.get(), CallBody, &body, args.get(), nullptr, results.out()));
  return results;
}

Value NumberValue(int64_t number) {
  Value value;
  Check(tutti_value_create_int64(number, value.out()));
  return value;
}

// ---- values.json ----

Value MakeValues(const Strategy &strategy, const Json &how) {
  Body body;
  const auto field = [](const Value &in, const char *name) {
    const tutti_tensor *number = nullptr;
    Check(tutti_value_find_tensor(in.get(), name, &number));
    return *static_cast<const int64_t *>(tutti_tensor_get_data(number));
  };
  if (how.contains("constant")) {
    body = [&](tutti_context *, const Value &) { return ValueOf(how.at("constant")); };
  } else if (how.contains("component_of")) {
    body = [&](tutti_context *, const Value &in) {
      const Json &whole = how.at("component_of");
      const Json &rows = whole.is_object() ? whole.at("v") : whole;
      const Json &row = rows.at(static_cast<size_t>(field(in, "replica_id_in_sync_group")));
      return ValueOf(row, tutti_tensor_get_dtype(TensorIn(ValueOf(whole))));
    };
  } else if (how.contains("replica_id")) {
    body = [&](tutti_context *, const Value &in) {
      return NumberValue(field(in, "replica_id_in_sync_group"));
    };
  } else if (how.contains("num_replicas")) {
    body = [&](tutti_context *, const Value &in) {
      return NumberValue(field(in, "num_replicas_in_sync"));
    };
  } else {
    throw NotCovered("the value_fn " + how.dump());
  }
  Value values;
  Check(tutti_strategy_create_values(strategy.get(), CallBody, &body, nullptr, values.out()));
  return values;
}

Body ReplicaFunction(const std::string &name) {
  if (name == "identity") return [](tutti_context *, const Value &in) { return in; };
  if (name == "replica_id") {
    return [](tutti_context *replica, const Value &) {
      return NumberValue(tutti_context_get_replica_id(replica));
    };
  }
  if (name == "double") return Elementwise([](double x) { return 2 * x; });
  if (name == "all_reduce_sum") {
    return [](tutti_context *replica, const Value &in) {
      Value sum;
      Check(tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, in.get(), nullptr, sum.out()));
      return sum;
    };
  }
  throw NotCovered("the replica function " + name);
}

// `context`: of the replica that makes it, or null.
Variable MakeVariable(const Strategy &strategy, tutti_context *context, const Json &how) {
  CheckKeys(how, {"value", "synchronization", "aggregation", "made_in_replicas"});
  static const std::vector<std::string> kSynchronizations = {"", "AUTO", "NONE", "ON_WRITE",
                                                             "ON_READ"};
  static const std::vector<std::string> kAggregations = {"", "NONE", "SUM", "MEAN",
                                                         "ONLY_FIRST_REPLICA"};
  const auto number = [](const std::vector<std::string> &names, const std::string &name) {
    for (size_t i = 1; i < names.size(); ++i) {
      if (names[i] == name) return static_cast<int32_t>(i);
    }
    throw NotCovered(name);
  };
  tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
  options.synchronization = number(kSynchronizations, how.at("synchronization"));
  options.aggregation = number(kAggregations, how.at("aggregation"));
  Variable variable;
  const Value initial = ValueOf(how.at("value"));
  if (context != nullptr) {
    Check(tutti_variable_create_in_context(context, TensorIn(initial), &options, nullptr,
                                           variable.out()));
  } else {
    Check(tutti_variable_create(strategy.get(), TensorIn(initial), &options, nullptr,
                                variable.out()));
  }
  return variable;
}

void Scatter(tutti_variable *variable, tutti_context *replica, const Json &how) {
  CheckKeys(how, {"op", "values", "indices"});
  static const std::vector<std::string> kOps = {"ADD", "SUB", "UPDATE", "MIN", "MAX", "MUL", "DIV"};
  const auto op = std::find(kOps.begin(), kOps.end(), how.at("op").get<std::string>());
  if (op == kOps.end()) throw NotCovered(how.at("op"));
  const auto number = static_cast<size_t>(tutti_context_get_replica_id(replica));
  const Value values = ValueOf(how.at("values")[number]);
  const Value indices = ValueOf(how.at("indices")[number]);
  Value delta;
  Check(tutti_value_create_indexed_slices(TensorIn(values), TensorIn(indices), nullptr,
                                          delta.out()));
  Check(tutti_variable_scatter(variable, replica, static_cast<int32_t>(op - kOps.begin()) + 1,
                               delta.get(), nullptr));
}

void RunVariableCase(const Json &test, const Strategy &strategy) {
  CheckKeys(test,
            {"name", "replicas", "variable", "run_assign_add", "run_scatter", "read",
             "copies_equal", "error"});
  const Json &described = test.at("variable");
  const bool in_replicas = described.value("made_in_replicas", false);
  Variable outside;
  if (!in_replicas) outside = MakeVariable(strategy, nullptr, described);
  const bool scatters = test.contains("run_scatter");
  Value added;
  if (!scatters) added = PerReplica(strategy, test.at("run_assign_add"));
  const Body write = [&](tutti_context *replica, const Value &in) {
    Variable made;
    if (in_replicas) made = MakeVariable(strategy, replica, described);
    tutti_variable *variable = in_replicas ? made.get() : outside.get();
    if (scatters) {
      Scatter(variable, replica, test.at("run_scatter"));
    } else {
      Check(tutti_variable_assign_add(variable, replica, TensorIn(in), nullptr));
    }
    Value out;
    Check(tutti_value_create_variable(variable, out.out()));
    return out;
  };
  const Json expected = test.contains("error") ? Json{{"error", test.at("error")}} : Json();
  Value written;
  if (FailsAsExpected(expected, [&] { written = Run(strategy, write, added); })) return;
  const tutti_variable *variable = tutti_value_get_leaf_variable(written.get(), 0);
  Tensor there;
  Check(tutti_variable_read(variable, nullptr, nullptr, there.out()));
  Tensor read;
  Check(tutti_tensor_copy_to(nullptr, there.get(), "CPU:0", nullptr, nullptr, read.out()));
  Compare(test.at("read"), ValueOf(read));
  if (!test.value("copies_equal", false)) return;
  for (size_t copy = 0; copy < tutti_variable_get_copy_count(variable); ++copy) {
    const tutti_tensor *tensor = tutti_variable_get_copy(variable, copy);
    if (!tutti_tensor_equal(tensor, read.get())) throw Mismatch("the copies differ");
  }
}

}  // namespace

void RunValuesCase(const Json &test) {
  const Strategy strategy = Mirrored(test.at("replicas"));
  if (test.contains("variable")) return RunVariableCase(test, strategy);
  CheckKeys(test, {"name", "replicas", "value_fn", "args", "run", "local", "reduce", "expect",
                   "mirrored"});
  Value value;
  if (test.contains("mirrored")) {
    const Value given = ValueOf(test.at("mirrored"));
    Check(tutti_strategy_create_mirrored_value(strategy.get(), given.get(), value.out()));
    if (tutti_value_get_leaf_distribution(value.get(), 0) != TUTTI_DISTRIBUTION_MIRRORED) {
      throw Mismatch("no mirrored value");
    }
  }
  if (test.contains("value_fn")) value = MakeValues(strategy, test.at("value_fn"));
  if (test.contains("args")) {
    if (test.at("args").size() != 1) throw NotCovered("several args");
    value = ValueOf(test.at("args")[0]);
  }
  if (test.contains("run")) value = Run(strategy, ReplicaFunction(test.at("run")), value);
  if (test.contains("local")) CompareLocal(test.at("local"), strategy, value);
  if (!test.contains("reduce")) return;
  Value reduced;
  Check(tutti_strategy_reduce(strategy.get(), ReduceOpOf(test.at("reduce")), value.get(), nullptr,
                              nullptr, reduced.out()));
  Compare(test.at("expect"), reduced);
}

void RunReduceCase(const Json &test) {
  CheckKeys(test, {"name", "op", "axis", "gather", "per_replica", "expect", "tolerance", "dtype"});
  const Strategy strategy = Mirrored(test.at("per_replica").size());
  Value result;
  const bool failed = FailsAsExpected(test.at("expect"), [&] {
    const Value value = PerReplica(strategy, test.at("per_replica"));
    if (test.contains("gather")) {
      Check(tutti_strategy_gather(strategy.get(), value.get(), test.at("gather"), nullptr,
                                  result.out()));
    } else {
      const bool along = test.contains("axis") && !test.at("axis").is_null();
      const int64_t axis = along ? test.at("axis").get<int64_t>() : 0;
      Check(tutti_strategy_reduce(strategy.get(), ReduceOpOf(test.at("op")), value.get(),
                                  along ? &axis : nullptr, nullptr, result.out()));
    }
  });
  if (failed) return;
  Compare(test.at("expect"), result, test.value("tolerance", 0.0),
          test.contains("dtype") ? DTypeOf(test.at("dtype")) : TUTTI_DTYPE_INVALID);
}

}  // namespace conformance

#include "core/dataset/graph/host_functions.h"

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/function/function.h"

namespace tutti {
namespace {

struct HostFunction {
  const Node* node = nullptr;  // null: there is none
  const Function* function = nullptr;
};

HostFunction FindHostFunction(const Node& root, bool in_sources) {
  for (const Node* node : InputsFirst(root)) {
    if (node->inputs().empty() && !in_sources) continue;
    for (const Ref<Function>& function : node->functions()) {
      if (function->calls_host()) return {node, function.get()};
    }
  }
  return {};
}

std::string_view NameOrNone(const Function& function) {
  return function.name().empty() ? std::string_view("a function without a name")
                                 : std::string_view(function.name());
}

}  // namespace

Status CheckNativeFunctions(const Dataset& dataset, std::string_view what) {
  if (!dataset.options().demands_native_functions()) return OkStatus();
  const HostFunction found = FindHostFunction(dataset.node(), false);
  if (found.node == nullptr) return OkStatus();
  const std::string_view reason = found.function->callback_reason();
  return FailedPrecondition(
             "{}: the option experimental_optimization.native_functions demands that no operation "
             "calls the host, and {} calls {}{}; give it an expression, or clear the option",
             what, found.node->label(), NameOrNone(*found.function),
             reason.empty() ? std::string() : Format(" ({})", reason))
      .With("node", found.node->label());
}

Status CheckExternalState(const Dataset& dataset, std::string_view what, bool* told) {
  const auto policy = dataset.options().external_state_policy();
  if (!policy || *policy == ExternalStatePolicy::kIgnore) return OkStatus();
  const HostFunction found = FindHostFunction(dataset.node(), true);
  if (found.node == nullptr) return OkStatus();
  const std::string text = Format(
      "{}: {} calls the host's {}, and state that it has outside of the dataset is not saved", what,
      found.node->label(), NameOrNone(*found.function));
  if (*policy == ExternalStatePolicy::kFail) {
    return FailedPrecondition(
               "{}; the option experimental_external_state_policy is FAIL: make it an expression, "
               "or set the option to WARN or IGNORE",
               text)
        .With("node", found.node->label());
  }
  if (!*told) dataset.environment()->environment().log().Warning(text);
  *told = true;
  return OkStatus();
}

const Node* LastPrefetch(const Node& root) {
  const Node* node = &root;
  while (!node->op().makes_ahead) {
    if (node->inputs().size() != 1) return nullptr;
    node = &node->input();
  }
  return node;
}

}  // namespace tutti

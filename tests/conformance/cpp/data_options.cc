#include "data_options.h"

#include <map>
#include <string>

namespace conformance {
namespace {

int64_t NumberOf(const std::string &key, const Json &value) {
  static const std::map<std::string, int64_t> kAutoShard = {
      {"OFF", -1}, {"AUTO", 0}, {"FILE", 1}, {"DATA", 2}, {"HINT", 3}};
  static const std::map<std::string, int64_t> kExternalState = {
      {"WARN", 0}, {"IGNORE", 1}, {"FAIL", 2}};
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_string()) return value;
  const auto &names = key == "experimental_external_state_policy" ? kExternalState : kAutoShard;
  const auto found = names.find(value);
  if (found == names.end()) throw NotCovered("the policy " + value.get<std::string>());
  return found->second;
}

}  // namespace

DataOptions OptionsOf(const Json &described) {
  DataOptions options;
  Check(tutti_data_options_create(options.out()));
  for (const auto &[key, value] : described.items()) {
    const int64_t number = NumberOf(key, value);
    Check(value.is_boolean()
              ? tutti_data_options_set_bool(options.get(), key.c_str(), number != 0)
              : tutti_data_options_set_int64(options.get(), key.c_str(), number));
  }
  return options;
}

void CompareOptions(const Json &names, const Json &expected, const DataOptions &found) {
  for (const std::string key : names) {
    const Json &wanted = expected.at(key);
    tutti_optional_int64 number = {0, 0};
    Check(tutti_data_options_read(found.get(), key.c_str(), &number));
    if (number.present == 0 ? wanted.is_null()
                            : !wanted.is_null() && number.value == NumberOf(key, wanted)) {
      continue;
    }
    throw Mismatch("the option " + key + " is " +
                   (number.present == 0 ? "not set" : std::to_string(number.value)));
  }
}

}  // namespace conformance

// The cases of device_spec.json.
#include <string>

#include "cases.h"

namespace conformance {
namespace {

DeviceSpec Parse(const std::string &text) {
  DeviceSpec spec;
  Check(tutti_device_spec_parse(text.c_str(), spec.out()));
  return spec;
}

DeviceSpec Create(const Json &json) {
  CheckKeys(json, {"job", "replica", "task", "device_type", "device_index"});
  const std::string job = json.value("job", ""), type = json.value("device_type", "");
  const auto number = [&](const char *name) {
    return tutti_optional_int64{json.contains(name), json.value(name, int64_t{0})};
  };
  tutti_device_fields fields = TUTTI_DEVICE_FIELDS_INIT;
  fields.job = json.contains("job") ? job.c_str() : nullptr;
  fields.device_type = json.contains("device_type") ? type.c_str() : nullptr;
  fields.replica = number("replica");
  fields.task = number("task");
  fields.device_index = number("device_index");
  DeviceSpec spec;
  Check(tutti_device_spec_create(&fields, spec.out()));
  return spec;
}

DeviceSpec Merge(const DeviceSpec &outer, const DeviceSpec &inner) {
  DeviceSpec merged;
  Check(tutti_device_spec_merge(outer.get(), inner.get(), merged.out()));
  return merged;
}

// Fields, or the text.
void CompareSpec(const Json &expected, const DeviceSpec &spec) {
  const std::string text = tutti_device_spec_get_text(spec.get());
  const bool equal = expected.is_string()
                         ? expected == text
                         : tutti_device_spec_equal(Create(expected).get(), spec.get()) != 0;
  if (!equal) throw Mismatch("expected " + expected.dump() + ", got " + text);
}

}  // namespace

void RunDeviceSpecCase(const Json &test) {
  CheckKeys(test, {"name", "parse", "spec", "merge", "scopes", "expect"});
  DeviceSpec spec;
  const bool failed = FailsAsExpected(test.at("expect"), [&] {
    if (test.contains("parse")) spec = Parse(test.at("parse"));
    if (test.contains("spec")) spec = Create(test.at("spec"));
    if (test.contains("merge")) {
      spec = Merge(Create(test.at("merge").at(0)), Create(test.at("merge").at(1)));
    }
    if (test.contains("scopes")) {
      spec = Parse("");
      for (const Json &scope : test.at("scopes")) spec = Merge(spec, Parse(scope));
    }
  });
  if (!failed) CompareSpec(test.at("expect"), spec);
}

}  // namespace conformance

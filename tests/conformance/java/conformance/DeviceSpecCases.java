package conformance;

import java.util.List;
import org.tutti.DeviceSpec;

/** The cases of device_spec.json. */
final class DeviceSpecCases {
  private DeviceSpecCases() {}

  static void run(Fields test) {
    test.known("name", "parse", "spec", "merge", "scopes", "expect");
    if (test.get("expect") instanceof Fields fields && fields.has("error")) {
      Runner.expectError(fields, () -> made(test));
      return;
    }
    final DeviceSpec found = made(test);
    if (test.get("expect") instanceof Fields fields) {
      Mismatch.check(found.equals(spec(fields)), fields, found);
    } else {
      Mismatch.check(found.toString().equals(test.get("expect")), test.get("expect"), found);
    }
  }

  private static DeviceSpec made(Fields test) {
    if (test.has("parse")) {
      return DeviceSpec.parse(test.text("parse"));
    }
    if (test.has("spec")) {
      return spec(test.fields("spec"));
    }
    if (test.has("merge")) {
      final List<?> parts = test.list("merge");
      return spec((Fields) parts.get(0)).merge(spec((Fields) parts.get(1)));
    }
    return inScopes(test.list("scopes"));
  }

  // The current device where the scopes of these names are entered, one inside the other.
  private static DeviceSpec inScopes(List<?> names) {
    if (names.isEmpty()) {
      return DeviceSpec.current();
    }
    try (DeviceSpec.Scope scope = DeviceSpec.scope((String) names.get(0))) {
      return inScopes(names.subList(1, names.size()));
    }
  }

  private static DeviceSpec spec(Fields given) {
    given.known("job", "replica", "task", "device_type", "device_index");
    return new DeviceSpec(given.text("job", null), (Long) given.get("replica"),
        (Long) given.get("task"), given.text("device_type", null),
        (Long) given.get("device_index"));
  }
}

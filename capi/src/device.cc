// Device names, and the devices of this process.
#include "core/device/device.h"

#include <tutti/device.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/device/device_spec.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/tensor.h"

using namespace tutti;
using namespace tutti::capi;

namespace tutti::capi {

// What tutti_device_spec is: the spec and its full text, which getters lend.
class DeviceSpecHandle final : public RefCounted {
 public:
  explicit DeviceSpecHandle(DeviceSpec spec) : spec_(std::move(spec)), text_(spec_.ToString()) {}
  const DeviceSpec &spec() const { return spec_; }
  const std::string &text() const { return text_; }

 private:
  const DeviceSpec spec_;
  const std::string text_;
};

}  // namespace tutti::capi

namespace {

Result<std::optional<int>> ReadIndex(Call call, const tutti_optional_int64 &field,
                                     const char *name) {
  if (field.present == 0) return std::optional<int>();
  if (field.value < 0 || field.value > std::numeric_limits<int>::max()) {
    return InvalidArgument("{}: {} is {}; expected 0 or more", call.function, name, field.value);
  }
  return std::optional<int>(static_cast<int>(field.value));
}

const char *TextOf(const std::optional<std::string> &field) {
  return field.has_value() ? field->c_str() : nullptr;
}

tutti_optional_int64 NumberOf(const std::optional<int> &field) {
  return {field.has_value(), field.value_or(0)};
}

}  // namespace

tutti_status *tutti_device_spec_parse(const char *text, tutti_device_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, text, out_spec);
    TUTTI_ASSIGN_OR_RETURN(DeviceSpec spec, DeviceSpec::Parse(text));
    *out_spec = Give(MakeRef<DeviceSpecHandle>(std::move(spec)));
    return OkStatus();
  });
}

tutti_status *tutti_device_spec_create(const tutti_device_fields *fields,
                                       tutti_device_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, fields));
    DeviceSpec spec;
    if (set.job != nullptr) spec.job = set.job;
    TUTTI_ASSIGN_OR_RETURN(spec.replica, ReadIndex(call, set.replica, "replica"));
    TUTTI_ASSIGN_OR_RETURN(spec.task, ReadIndex(call, set.task, "task"));
    TUTTI_ASSIGN_OR_RETURN(spec.device_index, ReadIndex(call, set.device_index, "device_index"));
    if (set.device_type != nullptr) {
      spec.device_type = set.device_type;
      for (char &c : *spec.device_type) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      }
    }
    *out_spec = Give(MakeRef<DeviceSpecHandle>(std::move(spec)));
    return OkStatus();
  });
}

tutti_status *tutti_device_spec_merge(const tutti_device_spec *outer,
                                      const tutti_device_spec *inner,
                                      tutti_device_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, outer, inner, out_spec);
    *out_spec = Give(
        MakeRef<DeviceSpecHandle>(FromHandle(outer)->spec().MergedWith(FromHandle(inner)->spec())));
    return OkStatus();
  });
}

tutti_status *tutti_device_spec_get_fields(const tutti_device_spec *spec,
                                           tutti_device_fields *out_fields) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, spec, out_fields);
    const DeviceSpec &known = FromHandle(spec)->spec();
    tutti_device_fields fields = TUTTI_DEVICE_FIELDS_INIT;
    fields.job = TextOf(known.job);
    fields.replica = NumberOf(known.replica);
    fields.task = NumberOf(known.task);
    fields.device_type = TextOf(known.device_type);
    fields.device_index = NumberOf(known.device_index);
    return WriteStruct(call, &fields, sizeof(fields), out_fields);
  });
}

const char *tutti_device_spec_get_text(const tutti_device_spec *spec) {
  return spec == nullptr ? "" : FromHandle(spec)->text().c_str();
}

int32_t tutti_device_spec_equal(const tutti_device_spec *left, const tutti_device_spec *right) {
  if (left == nullptr || right == nullptr) return left == right;
  return FromHandle(left)->spec() == FromHandle(right)->spec();
}

void tutti_device_spec_retain(const tutti_device_spec *spec) { RetainHandle(spec); }
void tutti_device_spec_release(const tutti_device_spec *spec) { ReleaseHandle(spec); }

namespace {

// One a line.
tutti_bytes *GiveNames(const std::vector<std::string> &names) {
  std::string lines;
  for (const std::string &name : names) {
    if (!lines.empty()) lines += '\n';
    lines += name;
  }
  return GiveBytes(std::move(lines));
}

std::string_view TypeOf(const char *device_type) {
  return device_type == nullptr ? std::string_view() : std::string_view(device_type);
}

}  // namespace

tutti_status *tutti_device_list(tutti_runtime *runtime, const char *device_type,
                                tutti_bytes **out_names) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_names);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_names = GiveNames(root->devices().ListNames(TypeOf(device_type)));
    return OkStatus();
  });
}

tutti_status *tutti_device_place(tutti_runtime *runtime, const char *name, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_text);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> device, root->devices().Place(name));
    *out_text = GiveBytes(device->full_name());
    return OkStatus();
  });
}

tutti_status *tutti_device_place_tensor(tutti_runtime *runtime, const char *name,
                                        const tutti_tensor *input, tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, name, input, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> device, root->devices().Place(name));
    const Tensor &tensor = *FromHandle(input);
    Ref<Tensor> placed;
    if (GpuMemory *const gpu = GpuMemoryOf(*device)) {
      placed = Ref<Tensor>::Retain(const_cast<Tensor *>(&tensor));
      if (tensor.device() != device->id()) {
        TUTTI_ASSIGN_OR_RETURN(placed, CopyToGpu(tensor, *gpu));
      }
    } else if (!tensor.device().is_cpu()) {
      TensorOptions options;
      options.device = device->id();
      TUTTI_ASSIGN_OR_RETURN(placed, CopyToCpu(tensor, options));
    } else {
      placed = Tensor::View(const_cast<void *>(tensor.data()), tensor.dtype(), tensor.shape(),
                            tensor.strides(), tensor.read_only(),
                            Ref<const Tensor>::Retain(&tensor), device->id());
    }
    *out_tensor = Give(std::move(placed));
    return OkStatus();
  });
}

tutti_status *tutti_device_of_tensor(const tutti_tensor *tensor, tutti_bytes **out_text) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_text);
    *out_text = GiveBytes(MakeRef<Device>(FromHandle(tensor)->device(), nullptr)->full_name());
    return OkStatus();
  });
}

tutti_status *tutti_device_list_physical(tutti_runtime *runtime, const char *device_type,
                                         tutti_bytes **out_names) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_names);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_names = GiveNames(root->devices().ListPhysicalNames(TypeOf(device_type)));
    return OkStatus();
  });
}

tutti_status *tutti_device_set_logical(tutti_runtime *runtime, const char *name, size_t count,
                                       const int64_t *memory_limits) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name);
    TUTTI_REQUIRE_ARRAY(call, count, memory_limits);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    std::vector<LogicalDevice> logical;
    for (size_t i = 0; i < count; ++i) logical.push_back(LogicalDevice{memory_limits[i]});
    return root->devices().SetLogicalDevices(name, logical);
  });
}

tutti_status *tutti_device_read_logical(tutti_runtime *runtime, const char *name,
                                        tutti_optional_int64 *out_number) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_number);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const std::optional<size_t> count,
                           root->devices().NumLogicalDevices(name));
    *out_number = {count.has_value(), static_cast<int64_t>(count.value_or(0))};
    return OkStatus();
  });
}

tutti_status *tutti_device_read_logical_limit(tutti_runtime *runtime, const char *name,
                                              int64_t index, int64_t *out_bytes) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_bytes);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(*out_bytes, root->devices().LogicalMemoryLimit(name, index));
    return OkStatus();
  });
}

tutti_status *tutti_device_set_visible(tutti_runtime *runtime, const char *device_type,
                                       size_t count, const char *const *names) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ARRAY(call, count, names);
    std::vector<std::string> read;
    for (size_t i = 0; i < count; ++i) {
      if (names[i] == nullptr) return NullArgument(call.function, "names", 0).With("index", i);
      read.emplace_back(names[i]);
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    return root->devices().SetVisible(TypeOf(device_type), read);
  });
}

tutti_status *tutti_device_list_visible(tutti_runtime *runtime, const char *device_type,
                                        tutti_bytes **out_names) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_names);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_names = GiveNames(root->devices().ListVisibleNames(TypeOf(device_type)));
    return OkStatus();
  });
}

tutti_status *tutti_device_describe(tutti_runtime *runtime, const char *name,
                                    tutti_bytes **out_json) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_json);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(std::string json, root->devices().Describe(name));
    *out_json = GiveBytes(std::move(json));
    return OkStatus();
  });
}

tutti_status *tutti_device_read_used_bytes(tutti_runtime *runtime, const char *name,
                                           int64_t *out_bytes) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_bytes);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const DeviceMemory memory, root->devices().ReadMemory(name));
    *out_bytes = memory.used_bytes;
    return OkStatus();
  });
}

tutti_status *tutti_device_read_peak_bytes(tutti_runtime *runtime, const char *name,
                                           int64_t *out_bytes) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_bytes);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const DeviceMemory memory, root->devices().ReadMemory(name));
    *out_bytes = memory.peak_bytes;
    return OkStatus();
  });
}

tutti_status *tutti_device_reset_peak_bytes(tutti_runtime *runtime, const char *name) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    return root->devices().ResetPeak(name);
  });
}

tutti_status *tutti_device_describe_plugins(tutti_runtime *runtime, tutti_bytes **out_json) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_json);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_json = GiveBytes(root->devices().DescribePlugins());
    return OkStatus();
  });
}

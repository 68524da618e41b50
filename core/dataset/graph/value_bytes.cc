#include "core/dataset/graph/value_bytes.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/value_proto.h"
#include "proto/tutti/v1/dataset.pb.h"

namespace tutti {

Result<std::string> SerializeValue(const Value& value) {
  TUTTI_RETURN_IF_ERROR(CheckLevels(value).WithPrefix("serialize"));
  v1::ValueDef def;
  WrittenDatasets written;
  TUTTI_RETURN_IF_ERROR(
      WriteValue(value, /*digest=*/false, &written, &def).WithPrefix("serialize"));
  if (def.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return InvalidArgument("serialize: the value takes {}, and a message ends at 2 GiB",
                           HumanBytes(static_cast<int64_t>(def.ByteSizeLong())));
  }
  return def.SerializeAsString();
}

Result<Ref<const Value>> ParseValue(const Ref<DatasetEnvironment>& environment,
                                    std::string_view bytes) {
  v1::ValueDef def;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !def.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !def.has_tree()) {
    return InvalidArgument("parse: these {} bytes are no value; pass what serialize gave",
                           bytes.size());
  }
  std::vector<Ref<Dataset>> read;
  Result<Ref<const Value>> value = ReadValue(def, environment, /*depth=*/0, &read);
  if (!value.ok()) return value.status().WithPrefix("parse");
  return value;
}

}  // namespace tutti

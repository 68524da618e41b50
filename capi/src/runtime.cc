// The runtime's life, settings and log.
#include <tutti/runtime.h>

#include <string>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/log.h"
#include "core/base/recorder.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

// The host's log function.
class HostLogSink final : public LogSink {
 public:
  HostLogSink(tutti_log_fn log, void *user_data) : log_(log), user_data_(user_data) {}
  void Write(const LogRecord &record) override {
    log_(static_cast<tutti_log_level>(record.level), ViewOf(record.message), user_data_);
  }

 private:
  const tutti_log_fn log_;
  void *const user_data_;
};

}  // namespace

tutti_status *tutti_runtime_create(const tutti_runtime_options *options,
                                   tutti_runtime **out_runtime) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_runtime);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    RuntimeOptions read;
    for (size_t i = 0; i < set.setting_count; ++i) {
      if (set.setting_keys == nullptr || set.setting_keys[i] == nullptr) {
        return NullArgument(call.function, "setting_keys", 0).With("index", i);
      }
      if (set.setting_values == nullptr || set.setting_values[i] == nullptr) {
        return NullArgument(call.function, "setting_values", 0).With("index", i);
      }
      read.settings.emplace_back(set.setting_keys[i], set.setting_values[i]);
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Runtime> runtime, Runtime::Create(read));
    *out_runtime = Give(Ref<Environment>(std::move(runtime)));
    return OkStatus();
  });
}

tutti_status *tutti_runtime_get_or_start_default(tutti_runtime **out_runtime) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_runtime);
    TUTTI_ASSIGN_OR_RETURN(Ref<Runtime> runtime, Runtime::Default());
    *out_runtime = Give(Ref<Environment>(std::move(runtime)));
    return OkStatus();
  });
}

void tutti_runtime_fail(tutti_runtime *runtime, const char *message) {
  Ref<Runtime> root;
  if (runtime == nullptr) {
    root = Runtime::DefaultIfRunning();
  } else {
    root = Ref<Runtime>::Retain(&Runtime::Of(*FromHandle(runtime)));
  }
  if (root && !root->LeftBehindByFork()) root->seat().Fail(AbortReason(__func__, message));
}

tutti_status *tutti_runtime_shutdown(tutti_runtime *runtime,
                                     const tutti_call_options *call_options) {
  return Guard(__func__, From::kHost, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCallAlways(call, RealClock(), kNeverNs, call_options));
    if (runtime != nullptr) {
      TUTTI_RETURN_IF_ERROR(FromHandle(runtime)->Shutdown(wait));
      // If it was the default one, this lets the next use start another.
      if (Runtime::DefaultIfRunning() != nullptr) return OkStatus();
    }
    return Runtime::ShutdownDefault(wait);
  });
}

tutti_status *tutti_runtime_end_default(const tutti_call_options *call_options) {
  return Guard(__func__, From::kHost, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCallAlways(call, RealClock(), kNeverNs, call_options));
    return Runtime::EndDefault(wait);
  });
}

int32_t tutti_runtime_is_running(const tutti_runtime *runtime) {
  if (runtime == nullptr) return Runtime::DefaultIfRunning() != nullptr;
  return !FromHandle(runtime)->LeftBehindByFork() && !FromHandle(runtime)->is_shut_down();
}

tutti_status *tutti_runtime_set(tutti_runtime *runtime, const char *key, const char *value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, key, value);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    return root->Set(key, value);
  });
}

tutti_status *tutti_runtime_read_setting(tutti_runtime *runtime, const char *key,
                                         tutti_bytes **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, key, out_value);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(std::string value, root->ReadSetting(key));
    *out_value = GiveBytes(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_runtime_describe(tutti_runtime *runtime, tutti_bytes **out_json) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_json);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_json = GiveBytes(root->DescribeSettings());
    return OkStatus();
  });
}

tutti_status *tutti_runtime_describe_collectives(tutti_runtime *runtime, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_text);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_text = GiveBytes(root->collective_table()->ToString());
    return OkStatus();
  });
}

tutti_status *tutti_runtime_set_random_seed(tutti_runtime *runtime, tutti_optional_int64 seed) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    root->SetDefaultSeed(ReadOptional(seed));
    return OkStatus();
  });
}

tutti_status *tutti_runtime_set_log_sink(tutti_runtime *runtime, tutti_log_fn log,
                                         void *user_data) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    Ref<LogSink> sink;
    if (log != nullptr) sink = MakeRef<HostLogSink>(log, user_data);
    return root->log().SetSink(std::move(sink));
  });
}

tutti_status *tutti_runtime_dump_recorder(tutti_runtime *runtime, tutti_bytes **out_json) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_json);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_json = GiveBytes(root->recorder().ToJson());
    return OkStatus();
  });
}

void tutti_runtime_retain(const tutti_runtime *runtime) { RetainHandle(runtime); }
void tutti_runtime_release(const tutti_runtime *runtime) { ReleaseHandle(runtime); }

// Writing TFRecord files.
#include <tutti/record.h>

#include <string>
#include <string_view>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/dataset/example/make_example.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/records/tf_record_writer.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Status WriteElement(TfRecordWriter &writer, const Value &element) {
  const Tensor *record = element.AsTensor();
  if (record == nullptr || record->dtype() != DType::kBytes || record->rank() != 0) {
    return InvalidArgument("{}: record {} is {}; expected a scalar of byte strings", writer.path(),
                           writer.count(), element.ToString())
        .With("file", writer.path())
        .With("index", writer.count())
        .With("expected_dtype", "bytes");
  }
  return writer.Write(record->item<BytesView>().text());
}

// A writer of a file waits for the disk; one that only notes what is to be written does not.
Status CheckMayWait(Call call, const TfRecordWriter &writer) {
  return writer.is_recorded() ? OkStatus() : CheckEntry(call.function, From::kComputing);
}

}  // namespace

tutti_status *tutti_tf_record_writer_create(tutti_runtime *runtime, const char *path,
                                            const tutti_tf_record_writer_options *options,
                                            tutti_tf_record_writer **out_writer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, path, out_writer);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TfRecordWriterOptions read;
    if (set.compression != TUTTI_UNSET) {
      read.compression = static_cast<RecordCompression>(set.compression);
    }
    if (set.compression_level.present != 0) {
      const int64_t level = set.compression_level.value;
      if (level < 0 || level > 9) {
        return InvalidArgument("{}: compression_level is {}; expected 0 to 9", call.function,
                               level);
      }
      read.compression_level = static_cast<int>(level);
    }
    TUTTI_ASSIGN_OR_RETURN(auto writer, TfRecordWriter::Create(root, path, read));
    *out_writer = Give(std::move(writer));
    return OkStatus();
  });
}

tutti_status *tutti_tf_record_writer_write(tutti_tf_record_writer *writer, const void *data,
                                           size_t size) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, writer);
    TUTTI_REQUIRE_ARRAY(call, size, data);
    return FromHandle(writer)->Write(std::string_view(static_cast<const char *>(data), size));
  });
}

tutti_status *tutti_example_create(const tutti_value *features, tutti_bytes **out_bytes) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, features, out_bytes);
    TUTTI_ASSIGN_OR_RETURN(std::string example, MakeExample(*FromHandle(features)));
    *out_bytes = GiveBytes(std::move(example));
    return OkStatus();
  });
}

tutti_status *tutti_tf_record_writer_write_example(tutti_tf_record_writer *writer,
                                                   const tutti_value *features) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, writer, features);
    TUTTI_ASSIGN_OR_RETURN(const std::string example, MakeExample(*FromHandle(features)));
    return FromHandle(writer)->Write(example);
  });
}

tutti_status *tutti_tf_record_writer_write_dataset(tutti_tf_record_writer *writer,
                                                   const tutti_dataset *dataset,
                                                   const tutti_call_options *call_options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, writer, dataset);
    TfRecordWriter &object = *FromHandle(writer);
    if (object.is_recorded()) return object.Write(*FromHandle(dataset), CallOptions());
    TUTTI_RETURN_IF_ERROR(CheckMayWait(call, object));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(
        const auto iterator,
        Iterator::Create(Ref<const Dataset>::Retain(FromHandle(dataset)), {}, wait));
    Status status;
    while (status.ok()) {
      Result<Ref<Value>> element = iterator->Next(wait);
      if (!element.ok()) status = element.status();
      if (!element.ok() || *element == nullptr) break;
      status = WriteElement(object, **element);
    }
    const Status closed = iterator->Close(wait);
    return status.ok() ? closed : status;
  });
}

tutti_status *tutti_tf_record_writer_close(tutti_tf_record_writer *writer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    if (writer == nullptr) return OkStatus();
    TUTTI_RETURN_IF_ERROR(CheckMayWait(call, *FromHandle(writer)));
    return FromHandle(writer)->Finish();
  });
}

tutti_status *tutti_tf_record_writer_abandon(tutti_tf_record_writer *writer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, writer);
    TUTTI_RETURN_IF_ERROR(CheckMayWait(call, *FromHandle(writer)));
    return FromHandle(writer)->Abandon();
  });
}

void tutti_tf_record_writer_retain(const tutti_tf_record_writer *writer) { RetainHandle(writer); }
void tutti_tf_record_writer_release(const tutti_tf_record_writer *writer) { ReleaseHandle(writer); }

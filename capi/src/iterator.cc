// Iterators.
#include "core/dataset/exec/iterator.h"

#include <tutti/iterator.h>

#include <string>
#include <string_view>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/dataset/graph/run_report.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_iterator_create(const tutti_dataset *dataset,
                                    const tutti_iterator_options *options,
                                    const tutti_call_options *call_options,
                                    tutti_iterator **out_iterator) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_iterator);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    const Dataset &object = *FromHandle(dataset);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment()->environment(), call_options));
    IteratorOptions iterator_options;
    iterator_options.name = TextOr(set.name, "");
    TUTTI_ASSIGN_OR_RETURN(auto iterator, Iterator::Create(Ref<const Dataset>::Retain(&object),
                                                           std::move(iterator_options), wait));
    *out_iterator = Give(std::move(iterator));
    return OkStatus();
  });
}

tutti_status *tutti_iterator_next(tutti_iterator *iterator, const tutti_call_options *call_options,
                                  tutti_value **out_value) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, out_value);
    Iterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto element, object.Next(wait));
    *out_value = Give(std::move(element));
    return OkStatus();
  });
}

tutti_status *tutti_iterator_next_optional(tutti_iterator *iterator,
                                           const tutti_call_options *call_options,
                                           tutti_value **out_optional) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, out_optional);
    Iterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto element, object.NextOptional(wait));
    *out_optional = Give(std::move(element));
    return OkStatus();
  });
}

const tutti_spec *tutti_iterator_get_element_spec(const tutti_iterator *iterator) {
  return iterator == nullptr ? nullptr : ToHandle(FromHandle(iterator)->element_spec().get());
}

tutti_status *tutti_iterator_save(tutti_iterator *iterator, const tutti_call_options *call_options,
                                  tutti_bytes **out_state) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, out_state);
    Iterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(std::string state, object.Save(wait));
    *out_state = GiveBytes(std::move(state));
    return OkStatus();
  });
}

tutti_status *tutti_iterator_restore(tutti_iterator *iterator, const void *state, size_t size,
                                     const tutti_call_options *call_options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator);
    TUTTI_REQUIRE_ARRAY(call, size, state);
    Iterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    return object.Restore(std::string_view(static_cast<const char *>(state), size), wait);
  });
}

tutti_status *tutti_iterator_explain(const tutti_iterator *iterator, const char *format,
                                     tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, format, out_text);
    TUTTI_ASSIGN_OR_RETURN(std::string text, FromHandle(iterator)->Explain().As(format));
    *out_text = GiveBytes(std::move(text));
    return OkStatus();
  });
}

tutti_status *tutti_iterator_close(tutti_iterator *iterator,
                                   const tutti_call_options *call_options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    if (iterator == nullptr) return OkStatus();
    Iterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCallToClose(call, object.environment(), call_options));
    return object.Close(wait);
  });
}

void tutti_iterator_retain(const tutti_iterator *iterator) { RetainHandle(iterator); }
void tutti_iterator_release(const tutti_iterator *iterator) { ReleaseHandle(iterator); }

// Bytes: what tutti_bytes is, an immutable text or block that the library gives away.
#ifndef TUTTI_CAPI_SRC_BYTES_H_
#define TUTTI_CAPI_SRC_BYTES_H_

#include <string>
#include <string_view>
#include <utility>

#include "capi/src/handles.h"
#include "core/base/ref.h"

namespace tutti::capi {

class Bytes final : public RefCounted {
 public:
  explicit Bytes(std::string text) : text_(std::move(text)) {}
  const std::string &text() const { return text_; }

 private:
  const std::string text_;
};

inline tutti_bytes *GiveBytes(std::string text) { return Give(MakeRef<Bytes>(std::move(text))); }

inline tutti_string_view ViewOf(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_BYTES_H_

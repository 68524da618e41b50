#include "core/cluster/resolve/strict_json.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

// Objects within objects; what a configuration needs and a stack can bear.
constexpr int kMaxDepth = 64;

// Looks at every key while the text is being read.
class KeyWatch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxDepth) too_deep_ = true;
    const size_t level = static_cast<size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      if (keys_.size() <= level + 1) keys_.resize(level + 2);
      keys_[level + 1].clear();  // its keys come with the depth of what is in it
    } else if (event == Json::parse_event_t::key) {
      const std::string key = value.get<std::string>();
      if (keys_.size() <= level) keys_.resize(level + 1);
      if (!keys_[level].insert(key).second && !duplicate_) duplicate_ = key;
    }
    return !too_deep_;
  }
  const std::optional<std::string>& duplicate() const { return duplicate_; }
  bool too_deep() const { return too_deep_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::optional<std::string> duplicate_;
  bool too_deep_ = false;
};

}  // namespace

Result<Json> ParseStrictJson(std::string_view text) {
  KeyWatch watch;
  Json value;
  try {
    value = Json::parse(text, std::ref(watch));
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view message = error.what();
    const size_t end = message.find("] ");
    return InvalidArgument("no JSON: {}",
                           end == std::string_view::npos ? message : message.substr(end + 2));
  }
  if (watch.too_deep()) return InvalidArgument("it is nested more than {} levels deep", kMaxDepth);
  if (watch.duplicate()) {
    return InvalidArgument("the key {} is there twice in one object", Quote(*watch.duplicate()));
  }
  return value;
}

}  // namespace tutti

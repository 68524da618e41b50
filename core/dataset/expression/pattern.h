// A regular expression in RE2's syntax, compiled once: matching takes time linear in the text,
// whatever the pattern is. A text is UTF-8; a byte that is none matches \C alone.
//
// RE2 itself is included by pattern.cc only. Threads: any.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_PATTERN_H_
#define TUTTI_CORE_DATASET_EXPRESSION_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace tutti {

class Pattern final : public RefCounted {
 public:
  // INVALID_ARGUMENT saying what is wrong with it.
  static Result<Ref<const Pattern>> Create(const std::string& text);

  // Whether the pattern matches the text from its begin to its end.
  bool Matches(std::string_view text) const;
  // INVALID_ARGUMENT for what is no rewrite here, in which \0 is what matched, \1 to \9 are its
  // groups, and two backslashes are one.
  Status CheckRewrite(std::string_view rewrite) const;
  // The text with a checked rewrite in place of the first match, or of `all` of them.
  std::string Replaced(std::string_view text, std::string_view rewrite, bool all) const;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  explicit Pattern(std::unique_ptr<const re2::RE2> compiled);
  ~Pattern() override;

  const std::unique_ptr<const re2::RE2> compiled_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_PATTERN_H_

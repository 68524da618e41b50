#include "core/dataset/expression/pattern.h"

#include <re2/re2.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

re2::StringPiece PieceOf(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Pattern::Pattern(std::unique_ptr<const re2::RE2> compiled) : compiled_(std::move(compiled)) {}

Pattern::~Pattern() = default;

Result<Ref<const Pattern>> Pattern::Create(const std::string& text) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto compiled = std::make_unique<const re2::RE2>(text, options);
  if (!compiled->ok()) {
    return InvalidArgument("'{}' is no pattern: {}; expected RE2's syntax, in which some "
                           "characters stand for themselves only behind a backslash",
                           text.substr(0, 64), compiled->error());
  }
  return Ref<const Pattern>(MakeRef<Pattern>(std::move(compiled)));
}

bool Pattern::Matches(std::string_view text) const {
  return re2::RE2::FullMatch(PieceOf(text), *compiled_);
}

Status Pattern::CheckRewrite(std::string_view rewrite) const {
  std::string error;
  if (compiled_->CheckRewriteString(PieceOf(rewrite), &error)) return OkStatus();
  return InvalidArgument("'{}' is no rewrite of '{}': {}; expected \\0 for what matched, \\1 to "
                         "\\9 for its groups and \\\\ for a backslash",
                         rewrite.substr(0, 64), compiled_->pattern().substr(0, 64), error);
}

std::string Pattern::Replaced(std::string_view text, std::string_view rewrite, bool all) const {
  std::string replaced(text);
  if (all) {
    re2::RE2::GlobalReplace(&replaced, *compiled_, PieceOf(rewrite));
  } else {
    re2::RE2::Replace(&replaced, *compiled_, PieceOf(rewrite));
  }
  return replaced;
}

}  // namespace tutti

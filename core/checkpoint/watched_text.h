// WatchedText: iterators over a long text for a parser that cannot be told to stop: once in a while
// `check` is asked whether to go on, and when it fails the text seems to end there.
//
//   WatchedText watched(text, check);
//   Json json = Json::parse(watched.begin(), watched.end(), nullptr, false);
//   TUTTI_RETURN_IF_ERROR(watched.status());
#ifndef TUTTI_CORE_CHECKPOINT_WATCHED_TEXT_H_
#define TUTTI_CORE_CHECKPOINT_WATCHED_TEXT_H_

#include <cstddef>
#include <functional>
#include <iterator>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

class WatchedText {
 public:
  using Check = std::function<Status()>;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    Iterator(WatchedText* text, const char* at) : text_(text), at_(at) {}
    reference operator*() const { return *at_; }
    Iterator& operator++() {
      if (++at_ == text_->next_check_) at_ = text_->GoOn(at_);
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    WatchedText* text_;
    const char* at_;
  };

  // Both outlive it. An empty check is never asked.
  WatchedText(std::string_view text, const Check& check)
      : text_(text), check_(check), next_check_(text.data()) {
    status_ = check_ ? check_() : OkStatus();
    next_check_ = NextCheck(text_.data());
  }
  WatchedText(const WatchedText&) = delete;
  WatchedText& operator=(const WatchedText&) = delete;

  Iterator begin() { return {this, status_.ok() ? text_.data() : Last()}; }
  Iterator end() { return {this, Last()}; }
  // Why it seemed to end before its end.
  const Status& status() const { return status_; }

 private:
  static constexpr ptrdiff_t kBetweenChecks = ptrdiff_t{1} << 16;

  const char* Last() const { return text_.data() + text_.size(); }
  const char* NextCheck(const char* at) const {
    return check_ && Last() - at > kBetweenChecks ? at + kBetweenChecks : nullptr;
  }
  const char* GoOn(const char* at) {
    status_ = check_();
    next_check_ = NextCheck(at);
    return status_.ok() ? at : Last();
  }

  const std::string_view text_;
  const Check& check_;
  const char* next_check_;
  Status status_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_WATCHED_TEXT_H_

// ErrorTail: what a worker said last on stderr, and whether that was about one of its peers.
//
// A worker whose peer is gone often dies before that peer does: an exception in worker 1 closes its
// communicator, worker 0 ends with UNAVAILABLE at once, and worker 1 is still printing its stack.
// By the order of deaths alone the wrong one would be blamed.

#ifndef TUTTI_CAPI_TOOL_ERROR_TAIL_H_
#define TUTTI_CAPI_TOOL_ERROR_TAIL_H_

#include <deque>
#include <string>
#include <string_view>

namespace tutti::tool {

class ErrorTail {
 public:
  // What comes next, in pieces of at most a line; the end of a line ends it.
  void Add(std::string_view text);

  // The last line that looks like an error, of a program in any of the languages: an exception with
  // its text, the end of a Java chain of causes, a panic, or a status code with its message. ""
  // when there is none among the last lines. Cut to a sensible length.
  std::string LastError() const;

 private:
  static constexpr size_t kMostLines = 200;      // long stacks stand behind Go's and Java's errors
  static constexpr size_t kMostLineBytes = 400;  // of one that is kept

  std::deque<std::string> lines_;
  bool is_open_ = false;  // the last one has not ended
};

// Whether an error is the one of a call that needed somebody who is gone: UNAVAILABLE or ABORTED,
// by code or as an exception's class.
bool IsAboutAPeer(std::string_view error);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_ERROR_TAIL_H_

// What the workers print, on its way to our stdout and stderr: whole lines, each with its worker's
// name before it, that never mix with another worker's. What has waited for its line's end for a
// while (a prompt, a progress bar) is passed on without it; the line goes on when more comes,
// unless somebody else had something to say.
//
// Nothing here waits. A reader of our output that is slow makes the sink full; the workers' pipes
// are then not read, and they wait, as they would for a slow reader of their own. A reader that
// went away makes the sink closed; the pipes are then closed, and the workers learn it as they
// would.

#ifndef TUTTI_CAPI_TOOL_LINE_OUTPUT_H_
#define TUTTI_CAPI_TOOL_LINE_OUTPUT_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::tool {

class OutputSink {
 public:
  explicit OutputSink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  void Append(std::string_view bytes);
  // The line that `who` has begun and others must not go on with; null: none is open.
  void SetOpenLine(const void* who) { open_line_of_ = who; }
  bool IsOpenLineOf(const void* who) const { return open_line_of_ == who; }
  void EndOpenLine();
  // Of a terminal: a line without an end, which the next bytes take the place of. False in the
  // middle of a line, and while something waits to be written: nothing is shown then.
  bool ShowPassing(std::string_view text);
  void TakePassingAway();
  bool empty() const { return begin_ == bytes_.size(); }
  bool full() const { return bytes_.size() - begin_ > kFullBytes; }
  bool closed() const { return closed_; }  // nobody reads any more
  // Writes what can be written without waiting.
  void Flush();

 private:
  static constexpr size_t kFullBytes = 1 << 20;

  const int fd_;
  std::string bytes_;
  size_t begin_ = 0;  // bytes before it are written
  bool closed_ = false;
  const void* open_line_of_ = nullptr;
  bool at_line_begin_ = true;
  bool passing_ = false;
};

// Cuts one stream of one worker into lines.
class LineCutter {
 public:
  // A line longer than this is cut in pieces, so that a worker cannot fill our memory.
  static constexpr size_t kMaxLineBytes = 64 << 10;

  // Hears what goes to the sink, without prefixes: lines with their ends, and what was passed on.
  using Listener = std::function<void(std::string_view text)>;

  // An empty prefix leaves the bytes as they are; lines still stay whole.
  explicit LineCutter(std::string prefix, Listener listener = nullptr)
      : prefix_(std::move(prefix)), listener_(std::move(listener)) {}

  void Feed(std::string_view bytes, OutputSink* sink);
  // Whether the begin of a line waits for its end.
  bool has_partial() const { return !partial_.empty(); }
  // Does not let it wait any longer.
  void PassOn(OutputSink* sink);
  // The end of the stream: a last line without a line end gets one, if lines are prefixed.
  void Finish(OutputSink* sink);

 private:
  void Emit(std::string_view line, bool cut, OutputSink* sink);
  // With the prefix after each carriage return, which would hide it.
  void AppendWithReturns(std::string_view text, OutputSink* sink);

  const std::string prefix_;
  const Listener listener_;
  std::string partial_;
  bool returned_ = false;  // a carriage return was the last that was passed on
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_LINE_OUTPUT_H_

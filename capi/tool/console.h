// Console: our stdout and stderr, as sinks for the workers' lines and for what the command itself
// has to say.

#ifndef TUTTI_CAPI_TOOL_CONSOLE_H_
#define TUTTI_CAPI_TOOL_CONSOLE_H_

#include <unistd.h>

#include <string>
#include <string_view>

#include "capi/tool/line_output.h"

namespace tutti::tool {

class Console {
 public:
  // `command` is what lines of our own begin with: "tutti run".
  explicit Console(std::string command);

  OutputSink* out() { return &out_; }
  // The same sink where stdout and stderr are the same file: lines then stay whole.
  OutputSink* err() { return same_ ? &out_ : &err_; }
  bool empty() const { return out_.empty() && err_.empty(); }
  void Flush();
  // A line on stderr: "tutti run: ...".
  void Say(std::string_view text);
  // The same on a terminal, until anything else comes; "" takes it away. False: not now.
  bool ShowPassing(std::string_view text);

 private:
  const std::string command_;
  OutputSink out_{STDOUT_FILENO};
  OutputSink err_{STDERR_FILENO};
  bool same_ = false;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_CONSOLE_H_

// WorkerLog: what one worker prints, stdout and stderr together, in a file of its own: `tutti run
// --log-dir`.

#ifndef TUTTI_CAPI_TOOL_WORKER_LOG_H_
#define TUTTI_CAPI_TOOL_WORKER_LOG_H_

#include <string>
#include <string_view>

#include "capi/tool/owned_fd.h"

namespace tutti::tool {

class WorkerLog {
 public:
  // FOLDER/worker-INDEX.log, which a first start (`restart` 0) begins anew and a later one goes on
  // with behind a line that says so. What is wrong, or "".
  std::string Open(const std::string& folder, int index, int restart);

  // Of a file that takes no more (a full disk) the rest is left out.
  void Write(std::string_view text);

 private:
  OwnedFd fd_;
};

// Makes the folder and those above it. What is wrong, or "".
std::string MakeLogFolder(const std::string& folder);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_WORKER_LOG_H_

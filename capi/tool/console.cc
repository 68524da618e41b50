#include "capi/tool/console.h"

#include <sys/stat.h>

#include <string>
#include <utility>

namespace tutti::tool {

Console::Console(std::string command) : command_(std::move(command)) {
  struct stat out = {}, err = {};
  same_ = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
          out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

void Console::Flush() {
  out_.Flush();
  err_.Flush();
}

void Console::Say(std::string_view text) {
  err()->EndOpenLine();
  err()->Append(command_ + ": " + std::string(text) + "\n");
}

bool Console::ShowPassing(std::string_view text) {
  if (!text.empty()) return err()->ShowPassing(command_ + ": " + std::string(text));
  err()->TakePassingAway();
  return true;
}

}  // namespace tutti::tool

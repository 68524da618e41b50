#include "core/collective/group/window_passing.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/cluster/sockets/peer_listener.h"

namespace tutti {
namespace {

constexpr const char kWindow[] = "window";
// Instead of a window; the descriptor with it is any.
constexpr const char kNone[] = "none";

FileDescriptor Anything() { return FileDescriptor(eventfd(0, EFD_CLOEXEC)); }

Status SendWindow(Environment& environment, const FileDescriptor& socket,
                  const FileDescriptor& window, const CallOptions& call) {
  if (window) return SendDescriptor(environment, socket, window, kWindow, call);
  return SendDescriptor(environment, socket, Anything(), kNone, call);
}

// Empty for none.
Result<FileDescriptor> ReceiveWindow(Environment& environment, const FileDescriptor& socket,
                                     const CallOptions& call) {
  std::string text;
  TUTTI_ASSIGN_OR_RETURN(FileDescriptor window,
                         ReceiveDescriptor(environment, socket, &text, call));
  if (text == kWindow) return window;
  if (text == kNone) return FileDescriptor();
  return DataLoss("the peer was to send its window and sent {} bytes of something else",
                  text.size());
}

FileDescriptor DescriptorOf(const SharedWindows& windows) {
  if (!windows.own) return FileDescriptor();
  return FileDescriptor(fcntl(windows.own->descriptor(), F_DUPFD_CLOEXEC, 0));
}

// Maps what was received; leaves of_ranks empty when that is not possible.
void OpenAll(Environment& environment, std::vector<FileDescriptor> received, int64_t rank,
             SharedWindows* windows) {
  std::vector<Ref<SharedWindowView>> views;
  for (size_t peer = 0; peer < received.size(); ++peer) {
    if (static_cast<int64_t>(peer) == rank) {
      views.push_back(SharedWindowView::Of(windows->own));
      continue;
    }
    Result<Ref<SharedWindowView>> view = SharedWindowView::Open(std::move(received[peer]));
    if (!view.ok()) {
      environment.log().Warning(Format("tensors in shared memory will be copied: {}",
                                       view.status().message()));
      return;
    }
    views.push_back(std::move(view).value());
  }
  windows->of_ranks = std::move(views);
}

}  // namespace

Status HandOutWindows(Environment& environment, std::span<const FileDescriptor> sockets,
                      const CallOptions& call, SharedWindows* windows) {
  Status first;
  std::vector<FileDescriptor> received;
  received.push_back(DescriptorOf(*windows));
  bool complete = static_cast<bool>(received[0]);
  for (size_t peer = 1; peer < sockets.size(); ++peer) {
    Result<FileDescriptor> window = FileDescriptor();
    if (sockets[peer]) window = ReceiveWindow(environment, sockets[peer], call);
    if (!window.ok() && first.ok()) first = window.status();
    received.push_back(window.ok() ? std::move(window).value() : FileDescriptor());
    complete = complete && received.back();
  }
  for (size_t peer = 1; peer < sockets.size(); ++peer) {
    if (!sockets[peer]) continue;
    Status sent;
    if (!complete) sent = SendWindow(environment, sockets[peer], FileDescriptor(), call);
    for (size_t of = 0; complete && of < received.size() && sent.ok(); ++of) {
      sent = SendWindow(environment, sockets[peer], received[of], call);
    }
    if (!sent.ok() && first.ok()) first = std::move(sent);
  }
  if (first.ok() && complete) OpenAll(environment, std::move(received), 0, windows);
  return first;
}

Status TakeWindows(Environment& environment, const FileDescriptor& socket, int64_t rank,
                   int64_t size, const CallOptions& call, SharedWindows* windows) {
  TUTTI_RETURN_IF_ERROR(SendWindow(environment, socket, DescriptorOf(*windows), call));
  std::vector<FileDescriptor> received;
  for (int64_t peer = 0; peer < size; ++peer) {
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor window, ReceiveWindow(environment, socket, call));
    if (!window) return OkStatus();
    received.push_back(std::move(window));
  }
  OpenAll(environment, std::move(received), rank, windows);
  return OkStatus();
}

}  // namespace tutti

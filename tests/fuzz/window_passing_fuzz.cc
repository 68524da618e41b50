// The windows that peers pass: descriptors of any kind and size, with any text, in any order; and
// the places of tensors that they then name.
//
// Input: whether the rank hands the windows out or takes them, and of how many ranks; then of each
// peer the messages: kind and size of a descriptor, the text with it; at last places and sizes of
// tensors. Behind a peer's messages its side ends. Properties: the exchange ends; there are windows
// of all ranks or of none; what a view shows lies within the file, which the peer can no more make
// shorter, and can be read at both ends.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/collective/group/window_passing.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr int64_t kHangNs = 20 * kSecondNs;
constexpr size_t kPageBytes = 4096;
constexpr size_t kMostMessages = 16;

Environment& SharedEnvironment() {
  static const Ref<RealEnvironment> environment =
      MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff});
  return *environment;
}

struct SocketPair {
  SocketPair() {
    int ends[2];
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
            "there are sockets");
    own = FileDescriptor(ends[0]);
    peers = FileDescriptor(ends[1]);
  }
  FileDescriptor own;
  FileDescriptor peers;
};

FileDescriptor Memory(size_t bytes, int seals) {
  FileDescriptor memory(memfd_create("fuzzed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Require(memory && ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0, "there is memory");
  if (seals != 0) Require(fcntl(memory.get(), F_ADD_SEALS, seals) == 0, "memory can be sealed");
  return memory;
}

FileDescriptor MakeDescriptor(uint8_t kind, uint32_t size) {
  constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const size_t bytes = size % (64 * kPageBytes);
  const size_t pages = (size % 64 + 1) * kPageBytes;
  switch (kind % 8) {
    case 0: return Memory(pages, kSizeSeals | F_SEAL_SEAL);
    case 1: return Memory(bytes, kSizeSeals | F_SEAL_SEAL);
    case 2: return Memory(pages, 0);
    case 3: return Memory(pages, kSizeSeals);
    case 4: return Memory(pages, F_SEAL_GROW | F_SEAL_SEAL);
    case 5: return FileDescriptor(eventfd(0, EFD_CLOEXEC));
    case 6: return Memory(size_t{1} << (32 + size % 8), kSizeSeals | F_SEAL_SEAL);
    default: return FileDescriptor();
  }
}

std::string MakeText(FuzzInput* input) {
  const auto kind = input->Take<uint8_t>();
  if (kind % 4 == 0) return std::string(1, '\6') + "window";
  if (kind % 4 == 1) return std::string(1, '\4') + "none";
  return std::string(input->TakeBytes(kind % 80));  // its first byte is taken as the length
}

void Send(const FileDescriptor& socket, std::string text, const FileDescriptor& passed) {
  if (text.empty()) return;
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (passed) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = passed.get();
    std::memcpy(CMSG_DATA(header), &number, sizeof(number));
  }
  (void)sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

struct Passed {
  FileDescriptor descriptor;
  size_t bytes = 0;
};

// What a peer says before it ends its side.
void SendMessages(FuzzInput* input, const FileDescriptor& socket, std::vector<Passed>* passed) {
  const size_t count = input->Take<uint8_t>() % (kMostMessages + 1);
  for (size_t i = 0; i < count && !input->empty(); ++i) {
    const auto kind = input->Take<uint8_t>();
    const auto size = input->Take<uint32_t>();
    FileDescriptor descriptor = MakeDescriptor(kind, size);
    Send(socket, MakeText(input), descriptor);
    struct stat status;
    if (descriptor && fstat(descriptor.get(), &status) == 0) {
      passed->push_back({std::move(descriptor), static_cast<size_t>(status.st_size)});
    }
  }
  shutdown(socket.get(), SHUT_WR);
}

// No window is longer than `most_bytes`.
void LookAtPlaces(FuzzInput* input, const SharedWindows& windows, size_t most_bytes) {
  while (!input->empty()) {
    const auto rank = input->Take<uint8_t>() % windows.of_ranks.size();
    const SharedWindowView& view = *windows.of_ranks[rank];
    auto offset = input->Take<uint64_t>();
    auto bytes = input->Take<uint64_t>();
    // Most numbers are far too large.
    const auto modulus = input->Take<uint8_t>();
    if (modulus % 4 != 0) offset %= uint64_t{modulus} * 1024;
    if (modulus % 3 != 0) bytes %= uint64_t{modulus} * 1024;
    const std::byte* const at = view.At(offset, bytes);
    if (at == nullptr) continue;
    Require(offset <= most_bytes && bytes <= most_bytes - offset, "a tensor lies in its window");
    if (bytes == 0) continue;
    const volatile std::byte* const read = at;
    (void)read[0];
    (void)read[bytes - 1];
  }
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  const auto shape = input.Take<uint8_t>();
  const bool hands_out = shape % 2 == 0;
  const size_t ranks = 2 + shape / 2 % 3;
  Environment& environment = SharedEnvironment();
  const CallOptions call = CallOptions::WithTimeout(environment.clock(), kHangNs);
  SharedWindows windows;
  windows.own = SharedWindow::Create(2 * kPageBytes, nullptr).value();

  std::vector<Passed> passed;
  std::vector<SocketPair> pairs(hands_out ? ranks - 1 : 1);
  for (const SocketPair& pair : pairs) SendMessages(&input, pair.peers, &passed);
  Status status;
  if (hands_out) {
    std::vector<FileDescriptor> sockets(1);
    for (SocketPair& pair : pairs) sockets.push_back(std::move(pair.own));
    status = HandOutWindows(environment, sockets, call, &windows);
  } else {
    status = TakeWindows(environment, pairs[0].own, 1, static_cast<int64_t>(ranks), call, &windows);
  }
  Require(status.code() != StatusCode::kDeadlineExceeded, "the exchange ends");
  Require(windows.of_ranks.empty() || windows.of_ranks.size() == ranks,
          "there are windows of all ranks or of none");
  if (windows.of_ranks.empty()) return 0;
  size_t most_bytes = windows.own->bytes();
  for (const Passed& one : passed) {
    (void)ftruncate(one.descriptor.get(), 0);  // of those that are no windows
    most_bytes = std::max(most_bytes, one.bytes);
  }
  LookAtPlaces(&input, windows, most_bytes);
  return 0;
}

#include "core/base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace tutti {
namespace {

class SystemRandom final : public Random {
 public:
  void Fill(void* data, size_t bytes) override {
    auto* out = static_cast<unsigned char*>(data);
    while (bytes > 0) {
      const ssize_t got = getrandom(out, bytes, 0);
      if (got < 0) {
        if (errno == EINTR) continue;
        std::abort();  // no kernel that we run on refuses
      }
      out += got;
      bytes -= static_cast<size_t>(got);
    }
  }
};

}  // namespace

Random& KernelRandom() {
  static SystemRandom* const random = new SystemRandom();
  return *random;
}

}  // namespace tutti

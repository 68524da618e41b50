#include "core/cluster/auth/job_secret.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/random.h"
#include "core/base/text.h"

namespace tutti {
namespace {

constexpr std::string_view kHowToMakeOne =
    "make one with `openssl rand -hex 32 > FILE; chmod 600 FILE; export "
    "TUTTI_JOB_SECRET_FILE=FILE` and give the same file to every worker, or start the workers "
    "with `tutti run`, which makes one for each job";
constexpr std::string_view kHashSalt = "tutti job secret";
constexpr std::string_view kStretchSalt = "tutti job secret, stretched";
constexpr uint64_t kScryptCost = 1 << 15;  // N, of blocks of 1 KiB (r = 8, p = 1): 32 MiB
constexpr uint64_t kScryptMaxBytes = 64 << 20;
constexpr size_t kStretchedBytes = 32;
constexpr char kHexDigits[] = "0123456789abcdef";

std::string Hexadecimal(const uint8_t* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kHexDigits[bytes[i] >> 4];
    text += kHexDigits[bytes[i] & 15];
  }
  return text;
}

const char* ValueOf(JobSecret::Variables variables, const char* name) {
  const char* value = variables(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// The text of an open file that only this user (or root, who reads everything anyway) can read.
Result<JobSecret> ReadSecret(const FileDescriptor& file, const std::string& path) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return FailedPrecondition("job secret file {} is no regular file", Quote(path));
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return FailedPrecondition("job secret file {} belongs to user {}, this process runs as user "
                              "{}; use a file of your own",
                              Quote(path), info.st_uid, geteuid());
  }
  if ((info.st_mode & 077) != 0) {
    return FailedPrecondition("job secret file {} has mode {:o}: others can read or change it; "
                              "run `chmod 600 {}`, and make a new secret if somebody may have "
                              "read this one",
                              Quote(path), info.st_mode & 07777, path);
  }
  std::string text(JobSecret::kMaxBytes + 64, '\0');  // white space around it does not count
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  Result<JobSecret> secret = JobSecret::FromText(text);
  if (!secret.ok()) return secret.status().WithPrefix("job secret file " + Quote(path));
  return secret;
}

Result<FileDescriptor> OpenSecret(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return ErrnoStatus(errno, path);
  return file;
}

// Whether `path` is a folder of this user's that nobody else can write to.
bool IsOwnFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 022) == 0;
}

// The user's own folder for the secret, made where it is missing.
Result<std::string> UserFolder(JobSecret::Variables variables) {
  std::string parent;
  if (const char* runtime = ValueOf(variables, "XDG_RUNTIME_DIR");
      runtime != nullptr && *runtime == '/' && IsOwnFolder(runtime)) {
    parent = runtime;
  } else if (const char* home = ValueOf(variables, "HOME"); home != nullptr && *home == '/') {
    parent = std::string(home) + "/.cache";
    mkdir(parent.c_str(), 0700);  // what matters is that the next one succeeds
  } else {
    return FailedPrecondition("there is no job secret, and neither XDG_RUNTIME_DIR nor HOME names "
                              "a folder to keep one in; {}",
                              kHowToMakeOne);
  }
  std::string folder = parent + "/tutti";
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailedPrecondition("there is no job secret, and the folder to keep one in cannot be "
                              "made: {}; {}",
                              ErrnoStatus(errno, folder).message(), kHowToMakeOne);
  }
  if (!IsOwnFolder(folder)) {
    return FailedPrecondition("the folder {} must belong to user {}, and nobody else may write to "
                              "it; correct that, or {}",
                              Quote(folder), geteuid(), kHowToMakeOne);
  }
  return folder;
}

Status WriteAll(const FileDescriptor& file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t wrote = write(file.get(), text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return ErrnoStatus(errno, path);
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return OkStatus();
}

// Puts a new secret at `path` unless another process was faster. The file gets its name when it is
// complete, in one step, so nobody ever reads half of one.
Status CreateSecret(const std::string& folder, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const JobSecret secret, JobSecret::Generate());
  const std::string line = secret.text() + "\n";
  FileDescriptor nameless(open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
  if (nameless) {
    TUTTI_RETURN_IF_ERROR(WriteAll(nameless, line, path));
    const std::string source = Format("/proc/self/fd/{}", nameless.get());
    if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0 ||
        errno == EEXIST) {
      return OkStatus();
    }
  }
  // File systems that cannot do that: a name of its own first.
  const std::string temporary = Format("{}.{:016x}", path, KernelRandom().Next());
  FileDescriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return ErrnoStatus(errno, temporary);
  Status status = WriteAll(file, line, temporary);
  if (status.ok() && link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    status = ErrnoStatus(errno, path);
  }
  unlink(temporary.c_str());
  return status;
}

Result<JobSecret> UserSecret(JobSecret::Variables variables) {
  TUTTI_ASSIGN_OR_RETURN(const std::string folder, UserFolder(variables));
  const std::string path = folder + "/job-secret";
  Result<FileDescriptor> file = OpenSecret(path);
  if (!file.ok() && file.status().code() == StatusCode::kNotFound) {
    Status created = CreateSecret(folder, path);
    if (!created.ok()) {
      return FailedPrecondition("there is no job secret, and none can be kept: {}; {}",
                                created.message(), kHowToMakeOne);
    }
    file = OpenSecret(path);
  }
  if (!file.ok()) {
    return FailedPrecondition("the job secret cannot be read: {}; {}", file.status().message(),
                              kHowToMakeOne);
  }
  return ReadSecret(*file, path);
}

}  // namespace

Result<JobSecret> JobSecret::FromText(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  if (trimmed.size() < kMinBytes || trimmed.size() > kMaxBytes) {
    return InvalidArgument("a job secret has {} to {} bytes, this one has {}; {}", kMinBytes,
                           kMaxBytes, trimmed.size(), kHowToMakeOne);
  }
  JobSecret secret;
  secret.text_ = std::string(trimmed);
  secret.key_ = secret.text_;
  if (trimmed.size() >= kMinStrongBytes) return secret;
  unsigned char stretched[kStretchedBytes];
  if (EVP_PBE_scrypt(trimmed.data(), trimmed.size(),
                     reinterpret_cast<const unsigned char*>(kStretchSalt.data()),
                     kStretchSalt.size(), kScryptCost, 8, 1, kScryptMaxBytes, stretched,
                     sizeof(stretched)) != 1) {
    return ResourceExhausted("a job secret of fewer than {} bytes is stretched, and OpenSSL cannot "
                             "do that (scrypt, with 32 MiB); use a longer one: {}",
                             kMinStrongBytes, kHowToMakeOne);
  }
  secret.key_.assign(reinterpret_cast<const char*>(stretched), sizeof(stretched));
  return secret;
}

Result<JobSecret> JobSecret::Find(bool loopback_only, Variables variables) {
  if (const char* path = ValueOf(variables, "TUTTI_JOB_SECRET_FILE"); path != nullptr) {
    Result<FileDescriptor> file = OpenSecret(path);
    if (!file.ok()) {
      return FailedPrecondition("TUTTI_JOB_SECRET_FILE: the job secret cannot be read: {}; {}",
                                file.status().message(), kHowToMakeOne);
    }
    Result<JobSecret> secret = ReadSecret(*file, path);
    if (!secret.ok()) return secret.status().WithPrefix("TUTTI_JOB_SECRET_FILE");
    return secret;
  }
  if (const char* text = ValueOf(variables, "TUTTI_JOB_SECRET"); text != nullptr) {
    Result<JobSecret> secret = FromText(text);
    if (!secret.ok()) return secret.status().WithPrefix("TUTTI_JOB_SECRET");
    return secret;
  }
  if (!loopback_only) {
    return FailedPrecondition("this job runs on several machines and has no job secret, so anybody "
                              "who reaches its ports could join it; {}",
                              kHowToMakeOne);
  }
  return UserSecret(variables);
}

Result<JobSecret> JobSecret::Generate() {
  uint8_t bytes[32];
  KernelRandom().Fill(bytes, sizeof(bytes));
  return FromText(Hexadecimal(bytes, sizeof(bytes)));
}

JobSecret::Key JobSecret::DeriveKey(std::string_view purpose) const {
  assert(!empty() && "a job secret must be found before keys are derived from it");
  Key key{};
  const std::unique_ptr<EVP_KDF, void (*)(EVP_KDF*)> kdf(
      EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr), &EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, void (*)(EVP_KDF_CTX*)> context(
      EVP_KDF_CTX_new(kdf.get()), &EVP_KDF_CTX_free);
  char digest[] = "SHA256";
  auto octets = [](const char* name, std::string_view text) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
  };
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, key_), octets(OSSL_KDF_PARAM_SALT, kHashSalt),
      octets(OSSL_KDF_PARAM_INFO, purpose), OSSL_PARAM_construct_end()};
  // Without a key nothing may go on: an all-zero one would let everybody in.
  if (context == nullptr ||
      EVP_KDF_derive(context.get(), key.data(), key.size(), parameters) != 1) {
    std::abort();
  }
  return key;
}

std::string JobSecret::Fingerprint() const {
  const Key key = DeriveKey("fingerprint");
  return Hexadecimal(key.data(), 8);
}

}  // namespace tutti

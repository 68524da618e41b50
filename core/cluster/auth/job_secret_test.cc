#include "core/cluster/auth/job_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "core/base/text.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The variables of the test that is running.
std::map<std::string, std::string>& Fake() {
  static auto* variables = new std::map<std::string, std::string>();
  return *variables;
}

const char* FakeVariable(const char* name) {
  const auto found = Fake().find(name);
  return found == Fake().end() ? nullptr : found->second.c_str();
}

class JobSecretTest : public ::testing::Test {
 protected:
  JobSecretTest() {
    Fake().clear();
    std::string pattern = ::testing::TempDir() + "/tutti-secret-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~JobSecretTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text, mode_t mode) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  static std::string MessageOf(const Result<JobSecret>& result) {
    EXPECT_FALSE(result.ok());
    return std::string(result.status().message());
  }

  std::string folder_;
};

TEST_F(JobSecretTest, DerivesIndependentKeysForPurposes) {
  const JobSecret secret = *JobSecret::FromText("0123456789abcdef");
  EXPECT_EQ(secret.DeriveKey("a"), secret.DeriveKey("a"));
  EXPECT_NE(secret.DeriveKey("a"), secret.DeriveKey("b"));
  EXPECT_NE(secret.DeriveKey("a"), JobSecret::FromText("0123456789abcdeF")->DeriveKey("a"));
  EXPECT_EQ(secret.Fingerprint().size(), 16u);
  EXPECT_NE(secret.Fingerprint(), JobSecret::FromText("0123456789abcdeF")->Fingerprint());
}

TEST_F(JobSecretTest, DerivesWhatRfc5869Says) {
  // Computed with Python's hmac from the two steps of the RFC.
  const JobSecret secret = *JobSecret::FromText("0123456789abcdef0123456789abcdef");
  EXPECT_EQ(secret.Fingerprint(), "250b1c4eb0579a24");
}

TEST_F(JobSecretTest, AShortOneIsStretchedSoThatItIsDearToGuess) {
  // The same of what Python's hashlib.scrypt makes of it (n = 2^15, r = 8, p = 1).
  const JobSecret secret = *JobSecret::FromText("0123456789abcdef");
  EXPECT_EQ(secret.text(), "0123456789abcdef");
  EXPECT_EQ(secret.Fingerprint(), "fc4c580360d62adf");
}

TEST_F(JobSecretTest, IgnoresWhiteSpaceAtTheEndsOnly) {
  EXPECT_EQ(JobSecret::FromText("  0123456789 abcdef\n")->text(), "0123456789 abcdef");
}

TEST_F(JobSecretTest, RefusesOneThatIsTooShortOrTooLongWithoutShowingIt) {
  const Result<JobSecret> result = JobSecret::FromText("hunter2");
  EXPECT_THAT(MessageOf(result), HasSubstr("has 16 to 4096 bytes, this one has 7; make one with"));
  EXPECT_THAT(MessageOf(result), Not(HasSubstr("hunter2")));
  EXPECT_FALSE(JobSecret::FromText(std::string(4097, 'x')).ok());
}

TEST_F(JobSecretTest, GeneratesADifferentOneEachTime) {
  const JobSecret secret = *JobSecret::Generate();
  EXPECT_EQ(secret.text().size(), 64u);
  EXPECT_NE(secret.text(), JobSecret::Generate()->text());
}

TEST_F(JobSecretTest, PrefersTheFileToTheVariable) {
  Fake()["TUTTI_JOB_SECRET_FILE"] = Write("secret", "of-the-file-0123456789\n", 0600);
  Fake()["TUTTI_JOB_SECRET"] = "of-the-variable-0123456789";
  EXPECT_EQ(JobSecret::Find(false, &FakeVariable)->text(), "of-the-file-0123456789");
  Fake().erase("TUTTI_JOB_SECRET_FILE");
  EXPECT_EQ(JobSecret::Find(false, &FakeVariable)->text(), "of-the-variable-0123456789");
}

TEST_F(JobSecretTest, SaysHowToMakeOneWhenSeveralMachinesHaveNone) {
  Fake()["HOME"] = folder_;
  const Result<JobSecret> result = JobSecret::Find(false, &FakeVariable);
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(result), HasSubstr("openssl rand -hex 32 > FILE; chmod 600 FILE; export "
                                           "TUTTI_JOB_SECRET_FILE=FILE"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(JobSecretTest, RefusesAFileThatOthersCanRead) {
  for (const mode_t mode : {0644, 0640, 0604, 0620}) {
    Fake()["TUTTI_JOB_SECRET_FILE"] = Write("secret", "of-the-file-0123456789\n", mode);
    const Result<JobSecret> result = JobSecret::Find(true, &FakeVariable);
    EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(MessageOf(result), HasSubstr(Format("has mode {:o}", mode)));
    EXPECT_THAT(MessageOf(result), HasSubstr("run `chmod 600 "));
  }
}

TEST_F(JobSecretTest, RefusesAFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = Write("secret", "of-the-file-0123456789\n", 0600);
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  Fake()["TUTTI_JOB_SECRET_FILE"] = path;
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)), HasSubstr("belongs to user 65534"));
}

TEST_F(JobSecretTest, SaysWhenTheFileIsMissingEmptyOrNoFile) {
  Fake()["TUTTI_JOB_SECRET_FILE"] = folder_ + "/missing";
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)),
              HasSubstr("/missing: No such file or directory; make one with"));
  Fake()["TUTTI_JOB_SECRET_FILE"] = folder_;
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)), HasSubstr("is no regular file"));
  Fake()["TUTTI_JOB_SECRET_FILE"] = Write("empty", "\n", 0600);
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)), HasSubstr("this one has 0"));
  Fake()["TUTTI_JOB_SECRET_FILE"] = Write("long", std::string(100'000, 'x'), 0600);
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)), HasSubstr("16 to 4096 bytes"));
  mkfifo((folder_ + "/pipe").c_str(), 0600);
  Fake()["TUTTI_JOB_SECRET_FILE"] = folder_ + "/pipe";
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)), HasSubstr("is no regular file"));
}

TEST_F(JobSecretTest, KeepsOneForTheUserOnLoopback) {
  Fake()["HOME"] = folder_;
  const Result<JobSecret> secret = JobSecret::Find(true, &FakeVariable);
  ASSERT_TRUE(secret.ok()) << secret.status().ToString();
  EXPECT_EQ(JobSecret::Find(true, &FakeVariable)->text(), secret->text());
  struct stat info;
  ASSERT_EQ(stat((folder_ + "/.cache/tutti/job-secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((folder_ + "/.cache/tutti").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(JobSecretTest, PrefersTheRuntimeFolderWhenItIsTheUsersOwn) {
  Fake()["XDG_RUNTIME_DIR"] = folder_;
  ASSERT_TRUE(JobSecret::Find(true, &FakeVariable).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/tutti/job-secret"));
}

TEST_F(JobSecretTest, NeedsAPlaceToKeepOne) {
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)),
              HasSubstr("neither XDG_RUNTIME_DIR nor HOME"));
}

TEST_F(JobSecretTest, RefusesAFolderThatOthersCanWriteTo) {
  Fake()["HOME"] = folder_;
  std::filesystem::create_directories(folder_ + "/.cache/tutti");
  chmod((folder_ + "/.cache/tutti").c_str(), 0777);
  EXPECT_THAT(MessageOf(JobSecret::Find(true, &FakeVariable)),
              HasSubstr("nobody else may write to it"));
}

TEST_F(JobSecretTest, ProcessesThatStartAtOnceAgree) {
  Fake()["HOME"] = folder_;
  for (int round = 0; round < 5; ++round) {
    std::filesystem::remove_all(folder_ + "/.cache");
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    constexpr int kProcesses = 8;
    pid_t children[kProcesses];
    for (pid_t& child : children) {
      child = fork();
      if (child != 0) continue;
      const Result<JobSecret> secret = JobSecret::Find(true, &FakeVariable);
      const std::string text = secret.ok() ? secret->text() : std::string(64, '?');
      _exit(write(pipe_ends[1], text.data(), 64) == 64 ? 0 : 1);
    }
    close(pipe_ends[1]);
    std::string all;
    char buffer[512];
    for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) {
      all.append(buffer, static_cast<size_t>(got));
    }
    close(pipe_ends[0]);
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    ASSERT_EQ(all.size(), size_t{64} * kProcesses);
    for (int i = 1; i < kProcesses; ++i) {
      EXPECT_EQ(all.substr(static_cast<size_t>(i) * 64, 64), all.substr(0, 64));
    }
    EXPECT_THAT(all, Not(HasSubstr("?")));
    // Nothing but the secret is left.
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/.cache/tutti")) {
      files += entry.exists() ? 1 : 0;
    }
    EXPECT_EQ(files, 1);
  }
}

}  // namespace
}  // namespace tutti

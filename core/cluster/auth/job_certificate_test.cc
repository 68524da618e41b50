#include "core/cluster/auth/job_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, FreeCertificate>;

Certificate Read(const std::string& pem) {
  BIO* buffer = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Certificate certificate(PEM_read_bio_X509(buffer, nullptr, nullptr, nullptr));
  BIO_free(buffer);
  return certificate;
}

// As TLS does it: is `leaf` good for a server of the job, when `authority` is trusted?
bool Verifies(const std::string& authority, const std::string& leaf, int purpose) {
  X509_STORE* store = X509_STORE_new();
  const Certificate root = Read(authority);
  const Certificate certificate = Read(leaf);
  X509_STORE_add_cert(store, root.get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, certificate.get(), nullptr);
  X509_STORE_CTX_set_purpose(context, purpose);
  X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(context), JobCertificate::kServerName, 0);
  const bool good = X509_verify_cert(context) == 1;
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return good;
}

class JobCertificateTest : public ::testing::Test {
 protected:
  const JobSecret secret_ = *JobSecret::FromText("0123456789abcdef");
  const JobSecret other_secret_ = *JobSecret::FromText("another-job-secret");
};

TEST_F(JobCertificateTest, ProcessesOfOneJobVerifyEachOther) {
  const JobCertificate a = *JobCertificate::Create(secret_);
  const JobCertificate b = *JobCertificate::Create(secret_);
  EXPECT_NE(a.private_key_pem, b.private_key_pem);
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    EXPECT_TRUE(Verifies(a.authority_pem, b.certificate_pem, purpose));
    EXPECT_TRUE(Verifies(b.authority_pem, a.certificate_pem, purpose));
  }
}

TEST_F(JobCertificateTest, ThoseOfAnotherJobDoNot) {
  const JobCertificate a = *JobCertificate::Create(secret_);
  const JobCertificate b = *JobCertificate::Create(other_secret_);
  EXPECT_FALSE(Verifies(a.authority_pem, b.certificate_pem, X509_PURPOSE_SSL_SERVER));
  // Nor does a process's certificate serve as an authority.
  EXPECT_FALSE(Verifies(a.certificate_pem, b.certificate_pem, X509_PURPOSE_SSL_SERVER));
}

TEST_F(JobCertificateTest, TheAuthoritysKeyIsTheSecretsAlone) {
  const Certificate a = Read(JobCertificate::Create(secret_)->authority_pem);
  const Certificate b = Read(JobCertificate::Create(secret_)->authority_pem);
  const Certificate c = Read(JobCertificate::Create(other_secret_)->authority_pem);
  EXPECT_EQ(EVP_PKEY_eq(X509_get0_pubkey(a.get()), X509_get0_pubkey(b.get())), 1);
  EXPECT_NE(EVP_PKEY_eq(X509_get0_pubkey(a.get()), X509_get0_pubkey(c.get())), 1);
}

TEST_F(JobCertificateTest, ClocksDoNotMatter) {
  const Certificate leaf = Read(JobCertificate::Create(secret_)->certificate_pem);
  time_t in_2021 = 1'610'000'000;
  time_t in_2110 = 4'420'000'000;
  EXPECT_LT(X509_cmp_time(X509_get0_notBefore(leaf.get()), &in_2021), 0);
  EXPECT_GT(X509_cmp_time(X509_get0_notAfter(leaf.get()), &in_2110), 0);
}

TEST_F(JobCertificateTest, SaysWhoseACertificateIs) {
  const JobCertificate own = *JobCertificate::Create(secret_);
  const Certificate same = Read(JobCertificate::Create(secret_)->certificate_pem);
  EXPECT_TRUE(CheckPeerCertificate(secret_, own.authority_pem, same.get(), "10.0.0.1:2").ok());

  const Certificate other = Read(JobCertificate::Create(other_secret_)->certificate_pem);
  const Status status = CheckPeerCertificate(secret_, own.authority_pem, other.get(), "10.0.0.1:2");
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the worker at 10.0.0.1:2 belongs to the job"),
                    HasSubstr(secret_.Fingerprint()), HasSubstr(other_secret_.Fingerprint()),
                    HasSubstr("set TUTTI_JOB_SECRET")));

  // An authority's certificate is nobody's own.
  const Certificate foreign = Read(JobCertificate::Create(other_secret_)->authority_pem);
  const Status no_job =
      CheckPeerCertificate(secret_, own.authority_pem, foreign.get(), "10.0.0.1:2");
  EXPECT_EQ(no_job.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(no_job.message()), HasSubstr("no worker of a Tutti job"));
}

}  // namespace
}  // namespace tutti

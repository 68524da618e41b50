#include "core/cluster/auth/job_certificate.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/obj_mac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/text.h"

namespace tutti {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Number = std::unique_ptr<BIGNUM, Free<&BN_clear_free>>;
using Group = std::unique_ptr<EC_GROUP, Free<&EC_GROUP_free>>;
using Point = std::unique_ptr<EC_POINT, Free<&EC_POINT_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Free<&EVP_PKEY_CTX_free>>;
using Certificate = std::unique_ptr<X509, Free<&X509_free>>;
using Buffer = std::unique_ptr<BIO, Free<&BIO_free_all>>;

// The common name before the fingerprint, of the authority and of its processes.
constexpr std::string_view kAuthorityName = "tutti-job-authority ";
constexpr std::string_view kProcessName = "tutti-job ";
constexpr const char* kNotBefore = "20200101000000Z";
constexpr const char* kNotAfter = "21200101000000Z";

Status Failed(const char* what) {
  return Internal("OpenSSL cannot make the job's certificate: {} failed", what);
}

// The private key is a number in [1, order - 1]: 48 derived bytes modulo order - 1, plus 1, which
// is as good as uniform (FIPS 186-5, A.2.1).
Result<Key> AuthorityKey(const JobSecret& secret) {
  const JobSecret::Key high = secret.DeriveKey("certificate authority 1");
  const JobSecret::Key low = secret.DeriveKey("certificate authority 2");
  std::string bytes(high.begin(), high.end());
  bytes.append(low.begin(), low.begin() + 16);

  const Group group(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const std::unique_ptr<BN_CTX, Free<&BN_CTX_free>> context(BN_CTX_new());
  const Number wide(BN_bin2bn(reinterpret_cast<const uint8_t*>(bytes.data()),
                              static_cast<int>(bytes.size()), nullptr));
  const Number order(BN_new());
  const Number scalar(BN_secure_new());
  if (group == nullptr || context == nullptr || wide == nullptr || order == nullptr ||
      scalar == nullptr || EC_GROUP_get_order(group.get(), order.get(), context.get()) != 1 ||
      BN_sub_word(order.get(), 1) != 1 ||
      BN_mod(scalar.get(), wide.get(), order.get(), context.get()) != 1 ||
      BN_add_word(scalar.get(), 1) != 1) {
    return Failed("the derivation of a key");
  }
  BN_set_flags(scalar.get(), BN_FLG_CONSTTIME);
  const Point point(EC_POINT_new(group.get()));
  uint8_t encoded[65];
  if (point == nullptr ||
      EC_POINT_mul(group.get(), point.get(), scalar.get(), nullptr, nullptr, context.get()) != 1 ||
      EC_POINT_point2oct(group.get(), point.get(), POINT_CONVERSION_UNCOMPRESSED, encoded,
                         sizeof(encoded), context.get()) != sizeof(encoded)) {
    return Failed("the derivation of a public key");
  }

  const std::unique_ptr<OSSL_PARAM_BLD, Free<&OSSL_PARAM_BLD_free>> builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, scalar.get()) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, encoded,
                                       sizeof(encoded)) != 1) {
    return Failed("OSSL_PARAM_BLD");
  }
  const std::unique_ptr<OSSL_PARAM, Free<&OSSL_PARAM_free>> parameters(
      OSSL_PARAM_BLD_to_param(builder.get()));
  const KeyContext key_context(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (parameters == nullptr || key_context == nullptr ||
      EVP_PKEY_fromdata_init(key_context.get()) != 1 ||
      EVP_PKEY_fromdata(key_context.get(), &key, EVP_PKEY_KEYPAIR, parameters.get()) != 1) {
    return Failed("EVP_PKEY_fromdata");
  }
  return Key(key);
}

bool SetName(X509_NAME* name, const std::string& text) {
  return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC,
                                    reinterpret_cast<const uint8_t*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool AddExtension(X509* certificate, int kind, const char* value) {
  const std::unique_ptr<X509_EXTENSION, Free<&X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

Result<Certificate> MakeCertificate(const std::string& subject, const std::string& issuer,
                                    bool is_authority, EVP_PKEY* public_key, EVP_PKEY* signer) {
  Certificate certificate(X509_new());
  if (certificate == nullptr) return Failed("X509_new");
  X509* raw = certificate.get();
  // Serial numbers are positive; two certificates of one issuer never share one.
  const uint64_t serial = (KernelRandom().Next() >> 1) | 1;
  const std::string alternative = std::string("DNS:") + JobCertificate::kServerName;
  const bool made =
      X509_set_version(raw, X509_VERSION_3) == 1 &&
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(raw), serial) == 1 &&
      ASN1_TIME_set_string(X509_getm_notBefore(raw), kNotBefore) == 1 &&
      ASN1_TIME_set_string(X509_getm_notAfter(raw), kNotAfter) == 1 &&
      SetName(X509_get_subject_name(raw), subject) && SetName(X509_get_issuer_name(raw), issuer) &&
      X509_set_pubkey(raw, public_key) == 1 &&
      AddExtension(raw, NID_basic_constraints, is_authority ? "critical,CA:TRUE" : "CA:FALSE") &&
      AddExtension(raw, NID_key_usage,
                   is_authority ? "critical,keyCertSign" : "critical,digitalSignature") &&
      (is_authority ||
       (AddExtension(raw, NID_ext_key_usage, "serverAuth,clientAuth") &&
        AddExtension(raw, NID_subject_alt_name, alternative.c_str()))) &&
      X509_sign(raw, signer, EVP_sha256()) > 0;
  if (!made) return Failed("making a certificate");
  return certificate;
}

Result<std::string> TakeText(const Buffer& buffer, int written) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(buffer.get(), &data);
  if (written != 1 || size <= 0) return Failed("PEM_write_bio");
  return std::string(data, static_cast<size_t>(size));
}

Result<std::string> CertificateText(X509* certificate) {
  const Buffer buffer(BIO_new(BIO_s_mem()));
  return TakeText(buffer, PEM_write_bio_X509(buffer.get(), certificate));
}

Result<std::string> KeyText(EVP_PKEY* key) {
  const Buffer buffer(BIO_new(BIO_s_mem()));
  return TakeText(buffer, PEM_write_bio_PrivateKey(buffer.get(), key, nullptr, nullptr, 0, nullptr,
                                                   nullptr));
}

// The common name of the subject, as far as it is plain text.
std::string CommonName(X509* certificate) {
  char text[128] = "";
  const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                             text, sizeof(text));
  std::string name;
  for (int i = 0; i < size && text[i] != '\0'; ++i) {
    name += text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
  }
  return name;
}

}  // namespace

Result<JobCertificate> JobCertificate::Create(const JobSecret& secret) {
  const std::string authority_name = std::string(kAuthorityName) + secret.Fingerprint();
  const std::string process_name = std::string(kProcessName) + secret.Fingerprint();
  TUTTI_ASSIGN_OR_RETURN(const Key authority_key, AuthorityKey(secret));
  TUTTI_ASSIGN_OR_RETURN(const Certificate authority,
                         MakeCertificate(authority_name, authority_name, true, authority_key.get(),
                                         authority_key.get()));
  const Key own_key(EVP_EC_gen("P-256"));
  if (own_key == nullptr) return Failed("EVP_EC_gen");
  TUTTI_ASSIGN_OR_RETURN(
      const Certificate own,
      MakeCertificate(process_name, authority_name, false, own_key.get(), authority_key.get()));
  JobCertificate result;
  TUTTI_ASSIGN_OR_RETURN(result.authority_pem, CertificateText(authority.get()));
  TUTTI_ASSIGN_OR_RETURN(result.certificate_pem, CertificateText(own.get()));
  TUTTI_ASSIGN_OR_RETURN(result.private_key_pem, KeyText(own_key.get()));
  return result;
}

Status CheckPeerCertificate(const JobSecret& secret, const std::string& authority_pem,
                            X509* certificate, const std::string& peer) {
  const Buffer buffer(
      BIO_new_mem_buf(authority_pem.data(), static_cast<int>(authority_pem.size())));
  const Certificate authority(PEM_read_bio_X509(buffer.get(), nullptr, nullptr, nullptr));
  if (authority == nullptr) return Failed("PEM_read_bio_X509");
  if (X509_verify(certificate, X509_get0_pubkey(authority.get())) == 1) return OkStatus();
  const std::string name = CommonName(certificate);
  if (!name.starts_with(kProcessName)) {
    return FailedPrecondition("what listens at {} is no worker of a Tutti job: its TLS certificate "
                              "is for {}; check the address",
                              peer, Quote(name));
  }
  const std::string fingerprint = name.substr(kProcessName.size());
  if (fingerprint == secret.Fingerprint()) {
    return Unauthenticated("what listens at {} says that it belongs to the job with the secret "
                           "fingerprint {}, as this process does, and cannot prove it; check who "
                           "listens there",
                           peer, fingerprint);
  }
  return Unauthenticated("the worker at {} belongs to the job with the secret fingerprint {}, this "
                         "process has {}; set TUTTI_JOB_SECRET or TUTTI_JOB_SECRET_FILE to the "
                         "same secret for all workers of a job",
                         peer, fingerprint, secret.Fingerprint());
}

}  // namespace tutti

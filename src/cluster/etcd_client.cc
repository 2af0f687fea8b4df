#include "src/cluster/etcd_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/etcd.grpc.pb.h"
#include "src/security/certificates.h"
#include "src/security/channel.h"
#include "src/security/client_credentials.h"
#include "src/security/watched_file.h"

namespace invoker::cluster {
namespace {

constexpr absl::Duration kRequestTimeout = absl::Seconds(2);
// The limit while there are other endpoints to ask. A lease has to be there within two seconds,
// also if the first endpoint is stopped or cut off, and so does not even refuse.
constexpr absl::Duration kRequestTimeoutWithOthers = absl::Milliseconds(300);
// etcd closes connections that are asked more often than every five seconds.
constexpr int kAliveIntervalMs = 6000;
constexpr int kAliveTimeoutMs = 3000;
constexpr int kMaxReplyBytes = 64 << 20;  // thousands of members

// The first key that does not begin with `prefix`.
std::string EndOf(absl::string_view prefix) {
  std::string end(prefix);
  ++end.back();
  return end;
}

EtcdClient::Entry EntryFrom(const etcdserverpb::KeyValue& message) {
  return {message.key(), message.value(), message.create_revision()};
}

// Remembers which endpoint answered last, for each list of endpoints in the process. A program
// makes a client for each lease that it takes, and would ask a silent endpoint first each time.
class AnsweringEndpoints {
 public:
  size_t Get(const std::string& endpoints) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = index_.find(endpoints);
    return found == index_.end() ? 0 : found->second;
  }
  void Set(const std::string& endpoints, size_t index) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    index_[endpoints] = index;
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, size_t> index_ ABSL_GUARDED_BY(mutex_);
};

AnsweringEndpoints& answering_endpoints() {
  static auto* const endpoints = new AnsweringEndpoints;
  return *endpoints;
}

std::string FormatEndpoints(const EtcdAddress& address) {
  return absl::StrJoin(address.endpoints, ",", [](std::string* out, const auto& endpoint) {
    out->append(bootstrap::FormatHostPort(endpoint));
  });
}

bool NoAnswer(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

std::shared_ptr<grpc::Channel> OpenChannel(const bootstrap::HostPort& endpoint,
                                           const security::Certificates* certificates) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kAliveIntervalMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kAliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  return security::OpenChannel(bootstrap::GrpcTarget(endpoint), certificates, arguments);
}

absl::Status CheckPlaintext(const EtcdAddress& address, const ClusterCredentials& credentials) {
  if (!credentials.tls_ca.empty() || credentials.plaintext) return absl::OkStatus();
  for (const bootstrap::HostPort& endpoint : address.endpoints) {
    if (bootstrap::IsLoopback(endpoint.host)) continue;
    const absl::StatusOr<bool> loopback = bootstrap::LeadsToLoopback(endpoint.host);
    // A name that nobody knows now may be known later, and lead anywhere.
    if (loopback.ok() && *loopback) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "etcd at ", bootstrap::FormatHostPort(endpoint),
        " is on another machine, and the connection would not be encrypted: name the file of the "
        "authorities that sign its certificate (--cluster-tls-ca, INVOKER_CLUSTER_TLS_CA, "
        "cluster_tls_ca=), or say that the network is trusted (--cluster-plaintext, "
        "INVOKER_CLUSTER_PLAINTEXT=1, cluster_plaintext=True)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterCredentials> Complete(ClusterCredentials all) {
  security::FromEnvironment("INVOKER_CLUSTER_PASSWORD_FILE", &all.password_file);
  if (!all.plaintext) {
    security::FromEnvironment("INVOKER_CLUSTER_TLS_CA", &all.tls_ca);
    security::FromEnvironment("INVOKER_CLUSTER_TLS_CERT", &all.tls_cert);
    security::FromEnvironment("INVOKER_CLUSTER_TLS_KEY", &all.tls_key);
    std::string plaintext;
    security::FromEnvironment("INVOKER_CLUSTER_PLAINTEXT", &plaintext);
    all.plaintext = plaintext == "1" && all.tls_ca.empty();
  }
  if (all.plaintext && !all.tls_ca.empty()) {
    return absl::InvalidArgumentError(
        "the connection to etcd is either encrypted (--cluster-tls-ca, cluster_tls_ca=) or "
        "plaintext (--cluster-plaintext, cluster_plaintext=): give one of them");
  }
  if (all.tls_cert.empty() != all.tls_key.empty() ||
      (!all.tls_cert.empty() && all.tls_ca.empty())) {
    return absl::InvalidArgumentError(
        "for etcd a certificate goes together with its key and with the authorities that sign "
        "etcd's own: give --cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca, or "
        "INVOKER_CLUSTER_TLS_CERT and so on, or cluster_tls_cert= and so on");
  }
  return all;
}

// The user and the password; both empty: none.
absl::StatusOr<std::pair<std::string, std::string>> ReadUser(const std::string& file) {
  using User = std::pair<std::string, std::string>;
  if (file.empty()) return User();
  const absl::StatusOr<std::string> text =
      security::ReadWholeFile("the file with etcd's password", file, security::Secrecy::kSecret);
  if (!text.ok()) return text.status();
  const absl::string_view line =
      absl::StripAsciiWhitespace(absl::string_view(*text).substr(0, text->find('\n')));
  User user = absl::StrSplit(line, absl::MaxSplits(':', 1));
  if (!user.first.empty() && !user.second.empty()) return user;
  return absl::FailedPreconditionError(
      absl::StrCat("the first line of ", file, " is not USER:PASSWORD, for etcd"));
}

}  // namespace

// A request while it is under way: Stop can end it.
class EtcdClient::Request {
 public:
  Request(EtcdClient* client, absl::Duration limit) : client_(client), limit_(limit) {
    absl::MutexLock lock(&client_->mutex_);
    stopped_ = client_->stopped_;
    if (stopped_) return;
    if (!client_->token_.empty()) context_.AddMetadata("token", client_->token_);
    client_->under_way_.insert(&context_);
  }
  ~Request() {
    absl::MutexLock lock(&client_->mutex_);
    client_->under_way_.erase(&context_);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  bool stopped() const { return stopped_; }
  grpc::ClientContext* context() { return &context_; }
  void LimitTime() { context_.set_deadline(absl::ToChronoTime(absl::Now() + limit_)); }

 private:
  EtcdClient* const client_;
  const absl::Duration limit_;
  bool stopped_ = false;
  grpc::ClientContext context_;
};

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Make(
    const EtcdAddress& address, const ClusterCredentials& credentials) {
  absl::StatusOr<ClusterCredentials> complete = Complete(credentials);
  if (!complete.ok()) return complete.status();
  if (absl::Status status = CheckPlaintext(address, *complete); !status.ok()) return status;
  absl::StatusOr<std::pair<std::string, std::string>> user = ReadUser(complete->password_file);
  if (!user.ok()) return user.status();
  absl::StatusOr<security::Certificates> certificates =
      security::LoadCertificates({complete->tls_cert, complete->tls_key, complete->tls_ca});
  if (!certificates.ok()) return certificates.status();
  std::unique_ptr<EtcdClient> client(
      new EtcdClient(FormatEndpoints(address), user->first, user->second));
  for (const bootstrap::HostPort& endpoint : address.endpoints) {
    client->endpoints_.push_back(
        {bootstrap::FormatHostPort(endpoint),
         OpenChannel(endpoint, complete->tls_ca.empty() ? nullptr : &*certificates)});
  }
  return client;
}

EtcdClient::EtcdClient(std::string all_endpoints, std::string user, std::string password)
    : all_endpoints_(std::move(all_endpoints)),
      user_(std::move(user)),
      password_(std::move(password)),
      current_(answering_endpoints().Get(all_endpoints_)) {}

EtcdClient::~EtcdClient() = default;

void EtcdClient::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  for (grpc::ClientContext* context : under_way_) context->TryCancel();
}

template <typename Ask>
absl::Status EtcdClient::Run(absl::string_view what, const Ask& ask) {
  absl::Status last;
  bool new_token = false;
  for (size_t tries = 0; tries < endpoints_.size();) {
    size_t current;
    bool has_token;
    {
      absl::MutexLock lock(&mutex_);
      current = current_;
      has_token = !token_.empty();
    }
    const Endpoint& endpoint = endpoints_[current];
    const bool others = tries + 1 < endpoints_.size();
    const absl::Duration limit = others ? kRequestTimeoutWithOthers : kRequestTimeout;
    if (!user_.empty() && !has_token) {
      last = Authenticate(endpoint, limit);
      new_token = true;
    } else {
      Request request(this, limit);
      if (request.stopped()) return absl::CancelledError("etcd is not asked any more");
      const grpc::Status status = ask(endpoint.channel, request);
      if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED && !user_.empty() &&
          !new_token) {
        // etcd forgets tokens that have not been used for some minutes, and those of its last run.
        absl::MutexLock lock(&mutex_);
        token_.clear();
        continue;
      }
      last = Explain(what, endpoint, status);
      if (!NoAnswer(status)) {
        if (tries > 0 && !absl::IsCancelled(last))
          answering_endpoints().Set(all_endpoints_, current);
        return last;
      }
    }
    if (last.ok()) continue;
    if (!absl::IsUnavailable(last) && !absl::IsDeadlineExceeded(last)) return last;
    ++tries;
    absl::MutexLock lock(&mutex_);
    if (current_ == current) current_ = (current + 1) % endpoints_.size();
  }
  return last;
}

absl::Status EtcdClient::Authenticate(const Endpoint& endpoint, absl::Duration limit) {
  Request request(this, limit);
  if (request.stopped()) return absl::CancelledError("etcd is not asked any more");
  request.LimitTime();
  etcdserverpb::AuthenticateRequest message;
  message.set_name(user_);
  message.set_password(password_);
  etcdserverpb::AuthenticateResponse reply;
  const grpc::Status status = etcdserverpb::Auth::NewStub(endpoint.channel)
                                  ->Authenticate(request.context(), message, &reply);
  if (!status.ok()) return Explain("log in", endpoint, status);
  absl::MutexLock lock(&mutex_);
  token_ = reply.token();
  return absl::OkStatus();
}

absl::Status EtcdClient::Explain(absl::string_view what, const Endpoint& endpoint,
                                 const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  const std::string said = status.error_message();
  absl::string_view advice;
  if (absl::StrContains(said, "user name is empty")) {
    advice =
        "; it wants a user: --cluster-password-file, INVOKER_CLUSTER_PASSWORD_FILE, "
        "cluster_password_file=";
  } else if (absl::StrContains(said, "permission denied")) {
    advice = "; the user needs a role that may read, and for a server write, below /invoker/";
  } else if (absl::StrContains(said, "authentication is not enabled")) {
    advice = "; leave the file with the password out";
  }
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      absl::StrCat("could not ", what, " etcd at ", endpoint.name, ": ", said, advice));
}

absl::StatusOr<EtcdClient::Listing> EtcdClient::List(absl::string_view prefix) {
  etcdserverpb::RangeRequest request;
  request.set_key(std::string(prefix));
  request.set_range_end(EndOf(prefix));
  request.set_serializable(true);
  etcdserverpb::RangeResponse reply;
  absl::Status status = Run("read from", [&](const auto& channel, Request& call) {
    call.LimitTime();
    return etcdserverpb::KV::NewStub(channel)->Range(call.context(), request, &reply);
  });
  if (!status.ok()) return status;
  Listing listing;
  listing.revision = reply.header().revision();
  for (const etcdserverpb::KeyValue& each : reply.kvs()) listing.entries.push_back(EntryFrom(each));
  return listing;
}

absl::Status EtcdClient::Put(absl::string_view key, absl::string_view value, int64_t lease) {
  etcdserverpb::PutRequest request;
  request.set_key(std::string(key));
  request.set_value(std::string(value));
  request.set_lease(lease);
  etcdserverpb::PutResponse reply;
  return Run("write to", [&](const auto& channel, Request& call) {
    call.LimitTime();
    return etcdserverpb::KV::NewStub(channel)->Put(call.context(), request, &reply);
  });
}

absl::StatusOr<int64_t> EtcdClient::GrantLease(absl::Duration ttl) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))));
  etcdserverpb::LeaseGrantResponse reply;
  absl::Status status = Run("get a lease from", [&](const auto& channel, Request& call) {
    call.LimitTime();
    return etcdserverpb::Lease::NewStub(channel)->LeaseGrant(call.context(), request, &reply);
  });
  if (status.ok() && !reply.error().empty()) status = absl::InternalError(reply.error());
  if (!status.ok()) return status;
  return reply.id();
}

absl::StatusOr<bool> EtcdClient::KeepAlive(int64_t lease) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse reply;
  absl::Status status = Run("keep the lease of", [&](const auto& channel, Request& call) {
    call.LimitTime();
    const auto stream = etcdserverpb::Lease::NewStub(channel)->LeaseKeepAlive(call.context());
    const bool answered = stream->Write(request) && stream->Read(&reply);
    stream->WritesDone();
    const grpc::Status ended = stream->Finish();
    // etcd ends the stream in its own way, after the answer too.
    if (answered) return grpc::Status::OK;
    return ended.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer") : ended;
  });
  if (!status.ok()) return status;
  return reply.ttl() > 0;
}

absl::Status EtcdClient::RevokeLease(int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse reply;
  absl::Status status = Run("give a lease back to", [&](const auto& channel, Request& call) {
    call.LimitTime();
    return etcdserverpb::Lease::NewStub(channel)->LeaseRevoke(call.context(), request, &reply);
  });
  // An endpoint that did not answer in time may have given it back all the same.
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status EtcdClient::Watch(absl::string_view prefix, int64_t revision,
                               const std::function<void(std::vector<Change>)>& on_changes) {
  etcdserverpb::WatchRequest request;
  request.mutable_create_request()->set_key(std::string(prefix));
  request.mutable_create_request()->set_range_end(EndOf(prefix));
  request.mutable_create_request()->set_start_revision(revision);
  bool watched = false;
  absl::Status status = Run("watch", [&](const auto& channel, Request& call) {
    // An endpoint that has lost the others ends the stream, and does not just fall silent.
    call.context()->AddMetadata("hasleader", "true");
    const auto stream = etcdserverpb::Watch::NewStub(channel)->Watch(call.context());
    etcdserverpb::WatchResponse reply;
    bool more = stream->Write(request);
    grpc::Status ended;
    while (more && stream->Read(&reply)) {
      watched = true;
      if (reply.canceled()) {
        ended = reply.compact_revision() != 0
                    ? grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "the revision is compacted")
                    : grpc::Status(grpc::StatusCode::ABORTED, reply.cancel_reason());
        call.context()->TryCancel();
        break;
      }
      std::vector<Change> changes;
      for (const etcdserverpb::Event& event : reply.events()) {
        changes.push_back({EntryFrom(event.kv()), event.type() == etcdserverpb::Event::DELETE});
      }
      if (!changes.empty()) on_changes(std::move(changes));
    }
    const grpc::Status finished = stream->Finish();
    if (!ended.ok()) return ended;
    // A watch that has begun is over: its caller has to know what it has missed.
    if (watched) return grpc::Status(grpc::StatusCode::ABORTED, finished.error_message());
    return finished;
  });
  return status.ok() ? absl::AbortedError("etcd has ended the watch") : status;
}

}  // namespace invoker::cluster

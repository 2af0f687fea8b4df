#include "tools/server_options.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "src/base/memory_limit.h"
#include "src/transport/provider/provider_profile.h"
#include "tools/files.h"
#include "tools/options.h"
#include "tools/security_options.h"

namespace invoker::tools {
namespace {

// Adaptive polling without --hot-timeout: long enough for the next call of a client that waits for
// each before it makes the next, short enough that an idle executor costs nothing to speak of.
constexpr absl::Duration kAdaptiveHotTimeout = absl::Milliseconds(10);

constexpr absl::Duration kLeastPeerTimeout = absl::Milliseconds(100);
constexpr absl::Duration kLeastEndpointCheck = absl::Milliseconds(100);

// What makes sense only with leases of executors of their own.
constexpr std::initializer_list<const char*> kLeaseFlags = {
    "--lease-memory",    "--executor-memory", "--max-ttl", "--max-call",      "--prestart",
    "--prestart-python", "--python",          "--sandbox", "--executor-user", "--bind-executors"};

void AddWorkerOptions(CLI::App* app, ServerSettings* settings, ServerFlags* flags) {
  WorkerOptions& worker = settings->worker;
  app->add_option("--listen", settings->listen,
                  "address of the bootstrap service; port 0 picks a free one. One that other "
                  "machines can reach needs --tls-cert or --allow-plaintext")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app->add_option(
         "--provider", worker.providers,
         "libfabric providers to serve; auto: every one of this machine that passes a test "
         "at the start. A client takes the best that it shares with the server. Named ones "
         "must all be there")
      ->delimiter(',')
      ->type_name("auto|NAME,...")
      ->default_str(std::string(transport::kAutoProvider));
  app->add_option(
         "--fabric-address", worker.addresses.given,
         "where the fabrics' endpoints are. An IP address or an interface is that of every "
         "fabric addressed by IP; another name is that of the libfabric domain with that "
         "name; a name that no fabric has is an error. By default, for fabrics addressed by "
         "IP, the host of --listen where that is an address of one interface, else the "
         "first interface that is not loopback")
      ->type_name("ADDRESS|INTERFACE|DOMAIN");
  app->add_option("--executors", worker.executors,
                  "executor threads for clients that lease none of their own; each has endpoints "
                  "of its own")
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--functions", settings->functions, "shared libraries with functions")
      ->delimiter(',')
      ->type_name("LIB.SO,...");
  AddNotification(app, "--notify", &worker.notification, "how a peer learns of a write");
  AddBytes(app, "--window", &worker.window_bytes,
           "per session and direction, a power of two; the largest payload is 32 bytes less");
  AddBytes(app, "--bulk-memory", &worker.bulk_bytes,
           "memory for payloads larger than the windows, input and output of all calls under way "
           "on executors that are not leased; more of them wait, and one that wants more by itself "
           "is refused. A leased executor gives three quarters of its memory");
  AddBytes(
      app, "--window-memory", &settings->sessions.window_memory,
      "memory for the windows of all sessions on executors that are not leased: twice --window "
      "each, four times with --data-auth=full; who comes later is refused. By default half of "
      "the machine's. A leased executor's windows are within the lease's memory")
      ->default_str("");
  app->add_option("--max-sessions", settings->sessions.total, "sessions of the server at a time")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--max-sessions-per-lease", settings->sessions.per_lease,
                  "of those, how many one lease may have, for each of its executors if it has some "
                  "of its own")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->capture_default_str();
  AddDataAuth(app, "--data-auth", &worker.data_auth,
              "how much of each message is under a keyed tag, so that a peer that knows a window's "
              "memory key cannot forge it: nothing, the header, or the payload too. A client may "
              "want more than this, and then gets it");
  app->add_option(
         "--polling", flags->polling,
         "what executors do when there is nothing to do. hot: busy-poll, while they have a "
         "session (the default); warm: sleep; adaptive: busy-poll for --hot-timeout after "
         "the last message, then sleep. A lease may choose its own")
      ->check(CLI::IsMember({"hot", "warm", "adaptive"}))
      ->type_name("hot|warm|adaptive");
  AddDuration(app, "--hot-timeout", &worker.executor.hot_timeout,
              "how long an executor busy-polls after the last message before it sleeps until the "
              "next; inf: always hot, while it has a session");
  worker.endpoint_watch.period = kServersEndpointCheck;
  AddDuration(
      app, "--endpoint-check", &worker.endpoint_watch.period,
      "how often a message from a new endpoint tries whether the endpoints to which clients "
      "connect still answer; one that does not is replaced. inf: never");
  AddDuration(app, "--drain-timeout", &settings->drain_timeout,
              "how long a server that was told to stop waits for a function that runs and for "
              "responses to leave");
  AddDuration(app, "--peer-timeout", &settings->peer_timeout,
              "a client that is silent for so long has lost its leases and sessions. Longer than "
              "what clients allow the server, so that one that stands in a debugger for a moment "
              "lives");
}

void AddLeaseOptions(CLI::App* app, ServerSettings* settings, ServerFlags* flags) {
  LeasePolicy& policy = settings->policy;
  SpawnerOptions& spawner = settings->spawner;
  app->add_option("--lease-cores", policy.total.cores,
                  "executors that clients may lease for themselves, all together: each is a "
                  "process of its own. 0: none. By default as many as there are cores")
      ->type_name("N");
  AddBytes(
      app, "--lease-memory", &policy.total.memory_bytes,
      "memory of all leased executors together; by default half of the machine's, or of what the "
      "server's control group may have")
      ->default_str("");
  AddBytes(app, "--executor-memory", &policy.executor_memory_bytes,
           "memory of a leased executor whose client does not say; by default its share of "
           "--lease-memory")
      ->default_str("");
  AddDuration(app, "--max-ttl", &policy.max_ttl, "the longest that a lease may live");
  AddDuration(app, "--max-call", &policy.max_call,
              "the longest that a function of a leased executor may run: a longer one ends the "
              "lease");
  app->add_option("--prestart", spawner.prestart,
                  "executors to keep ready for leases: then a lease takes milliseconds")
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--prestart-python", spawner.prestart_python, "the same, for Python functions")
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--python", spawner.python_path,
                  "Python interpreter that has the package invoker, for executors of Python "
                  "functions; by default there are none")
      ->type_name("PATH");
  app->add_flag("--bind-executors", spawner.bind,
                "each leased executor runs on one of the cores that the server may run on, and on "
                "another one than the others");
  app->add_option("--sandbox", flags->sandbox,
                  "of leased executors. none: a process with limits; bwrap: also a read-only root, "
                  "a private /tmp and no network but what the fabrics need (bubblewrap)")
      ->check(CLI::IsMember({"none", "bwrap"}))
      ->type_name("none|bwrap")
      ->capture_default_str();
  app->add_option(
         "--executor-user", spawner.user,
         "whom leased executors run as if the server is root; by default nobody. LOW-HIGH: "
         "each as another user of these, by numbers that nobody else has")
      ->type_name("NAME|LOW-HIGH");
}

void AddUploadAndAccountingOptions(CLI::App* app, ServerSettings* settings, ServerFlags* flags) {
  app->add_option("--allow-upload", flags->allow_upload,
                  "what clients may bring along, to be run in executors that they have leased")
      ->check(CLI::IsMember({"none", "library", "python", "all"}))
      ->type_name("none|library|python|all")
      ->capture_default_str();
  app->add_option("--upload-cache", settings->upload_cache,
                  "where uploaded files are kept; by default in a temporary directory")
      ->type_name("DIR");
  AddBytes(app, "--upload-cache-bytes", &settings->upload_cache_bytes,
           "how much of them is kept at most");
  AccountingOptions& accounting = settings->accounting;
  app->add_option("--usage-file", accounting.usage_file,
                  "where a line is added for each lease that ends; read at the start. By default "
                  "usage is forgotten when the server ends")
      ->type_name("FILE");
  app->add_option("--usage-to", accounting.usage_to,
                  "a server with --usage-counters that this one's usage is added up on, too")
      ->type_name("HOST:PORT");
  app->add_flag("--usage-counters", accounting.usage_counters,
                "let other servers add their usage to counters of this one");
}

void AddSecurityOptions(CLI::App* app, ServerSettings* settings) {
  app->add_option("--tls-cert", settings->tls.certificate,
                  "the server's certificate and those it was signed with (PEM): connections are "
                  "encrypted. Read again when it changes, as are the next two")
      ->type_name("FILE");
  app->add_option("--tls-key", settings->tls.key, "its private key (PEM, mode 600)")
      ->type_name("FILE");
  app->add_option("--tls-client-ca", settings->tls.authorities,
                  "certificates of authorities (PEM): clients must have a certificate that one of "
                  "them has signed")
      ->type_name("FILE");
  app->add_option(
         "--token-file", settings->token_file,
         "a file (mode 600) with a token on each line: clients must show one of them. Read "
         "again when it changes, and on SIGHUP")
      ->type_name("FILE");
  app->add_option("--policy", settings->policy_file,
                  "who may do what: see docs/guide/security.md, and invoker policy check. Read "
                  "again when it changes, and on SIGHUP")
      ->type_name("FILE");
  app->add_option("--max-connections", settings->connections.total,
                  "TCP connections of the bootstrap at a time: more are closed at once. By default "
                  "half of the descriptors that the server may have (ulimit -n), and 10000 at most")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app->add_option("--max-connections-per-source", settings->connections.per_source,
                  "of those, how many one address may have (IPv6: one /64); by default half")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app->add_option("--metrics", settings->metrics,
                  "where a page for people (/), metrics for Prometheus (/metrics) and the status "
                  "for programs (/status.json) are; port 0 picks a free one. With the same "
                  "encryption and for the same callers as --listen")
      ->type_name("HOST:PORT");
  app->add_flag("--allow-plaintext", settings->allow_plaintext,
                "listen without encryption also where other machines can reach the port, on a "
                "trusted network");
}

absl::Status SettleSecurity(const ServerSettings& settings) {
  const security::CertificatePaths& tls = settings.tls;
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert and --tls-key go together: a certificate, and the private key that belongs to "
        "it");
  }
  if (!tls.authorities.empty() && tls.certificate.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca asks clients for certificates, for which connections must be encrypted: "
        "give --tls-cert and --tls-key too");
  }
  if (!settings.token_file.empty() && !settings.policy_file.empty()) {
    return absl::InvalidArgumentError(
        "--token-file and --policy cannot both be given: with a policy, tokens are its tenants'");
  }
  return absl::OkStatus();
}

absl::Status SettlePolling(const CLI::App& app, const ServerFlags& flags,
                           ServerSettings* settings) {
  absl::Duration& hot_timeout = settings->worker.executor.hot_timeout;
  const bool given = app.count("--hot-timeout") > 0;
  if (given && (flags.polling == "hot" || flags.polling == "warm")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--polling=", flags.polling,
                     " has no --hot-timeout: leave one of them out, or "
                     "say --polling=adaptive"));
  }
  if (flags.polling == "hot") hot_timeout = absl::InfiniteDuration();
  if (flags.polling == "warm") hot_timeout = absl::ZeroDuration();
  if (flags.polling == "adaptive" && !given) hot_timeout = kAdaptiveHotTimeout;
  settings->policy.hot_timeout = hot_timeout;
  return absl::OkStatus();
}

uint32_t MachineCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(CPU_COUNT(&set), 1));
}

// The machine's, or what this process's control group may have of it.
uint64_t MemoryBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGESIZE);
  const uint64_t all =
      pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  const uint64_t limit = OwnMemoryLimit();
  return limit == 0 ? all : std::min(all, limit);
}

absl::Status SettleLeases(const CLI::App& app, const ServerFlags& flags, ServerSettings* settings) {
  LeasePolicy& policy = settings->policy;
  SpawnerOptions& spawner = settings->spawner;
  if (policy.max_ttl <= absl::ZeroDuration() || policy.max_call <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--max-ttl and --max-call must be more than 0");
  }
  const bool cores_given = app.count("--lease-cores") > 0;
  for (const char* flag : kLeaseFlags) {
    if (app.count(flag) == 0) continue;
    settings->leases_asked_for = true;
    if (cores_given && policy.total.cores == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " is of leased executors, and --lease-cores=0 leases none"));
    }
  }
  if (cores_given && policy.total.cores == 0) return absl::OkStatus();
  settings->leases_asked_for |= cores_given;
  if (!cores_given) policy.total.cores = MachineCores();
  if (policy.total.memory_bytes == 0) policy.total.memory_bytes = MemoryBytes() / 2;
  if (policy.executor_memory_bytes == 0) {
    policy.executor_memory_bytes = policy.total.memory_bytes / policy.total.cores;
  }
  if (policy.executor_memory_bytes == 0 ||
      policy.executor_memory_bytes > policy.total.memory_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--executor-memory is ", policy.executor_memory_bytes,
                     " bytes; it must be more than 0 and no more than --lease-memory, which is ",
                     policy.total.memory_bytes));
  }
  if (uint64_t{spawner.prestart} + spawner.prestart_python > policy.total.cores) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prestart and --prestart-python are ", spawner.prestart, " and ",
                     spawner.prestart_python, ", but --lease-cores is ", policy.total.cores,
                     ": more executors are never leased at once"));
  }
  if (spawner.prestart_python > 0 && spawner.python_path.empty()) {
    return absl::InvalidArgumentError("--prestart-python needs --python=PATH");
  }
  policy.python = !spawner.python_path.empty();
  spawner.sandbox = flags.sandbox == "bwrap" ? Sandbox::kBubblewrap : Sandbox::kNone;
  return absl::OkStatus();
}

absl::Status SettleUpload(const CLI::App& app, const ServerFlags& flags, ServerSettings* settings) {
  for (const UploadPolicy policy :
       {UploadPolicy::kNone, UploadPolicy::kLibrary, UploadPolicy::kPython, UploadPolicy::kAll}) {
    if (flags.allow_upload == UploadPolicyName(policy)) settings->upload = policy;
  }
  settings->policy.allow_upload = settings->upload != UploadPolicy::kNone;
  if (settings->upload == UploadPolicy::kNone) {
    if (app.count("--upload-cache") + app.count("--upload-cache-bytes") > 0) {
      return absl::InvalidArgumentError(
          "--upload-cache and --upload-cache-bytes need --allow-upload, which is \"none\"");
    }
    return absl::OkStatus();
  }
  if (settings->policy.total.cores == 0) {
    return absl::InvalidArgumentError(
        "--allow-upload needs leased executors, which alone run what is uploaded, and "
        "--lease-cores=0 leases none");
  }
  settings->leases_asked_for = true;
  return absl::OkStatus();
}

void AddClusterOptions(CLI::App* app, cluster::RegistrationOptions* options) {
  app->add_option("--cluster", options->cluster,
                  "the cluster in etcd that this server is a member of, until it drains: "
                  "etcd://HOST:PORT,HOST:PORT/NAME")
      ->type_name("URL");
  app->add_option(
         "--advertise", options->advertise,
         "where clients of the cluster connect to. By default where the server listens, or, "
         "if that is every interface, this machine's address on the way to etcd")
      ->type_name("HOST:PORT");
  AddLabels(app, &options->labels,
            "KEY=VALUE, by which people and clients may know this member; repeat it for several");
  AddClusterCredentialOptions(app, &options->credentials);
}

}  // namespace

void AddServerOptions(CLI::App* app, ServerSettings* settings, ServerFlags* flags) {
  settings->policy.executor_memory_bytes = 0;
  AddWorkerOptions(app, settings, flags);
  AddLeaseOptions(app, settings, flags);
  AddUploadAndAccountingOptions(app, settings, flags);
  AddSecurityOptions(app, settings);
  AddLogOptions(app, &settings->log);
  AddCredentialOptions(app, "usage-", &settings->accounting.usage_credentials);
  AddClusterOptions(app, &settings->cluster);
}

absl::Status Settle(const CLI::App& app, const ServerFlags& flags, ServerSettings* settings) {
  if (settings->peer_timeout < kLeastPeerTimeout || settings->peer_timeout > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--peer-timeout is from ", absl::FormatDuration(kLeastPeerTimeout),
                     " to 24h, not ", absl::FormatDuration(settings->peer_timeout)));
  }
  if (settings->worker.endpoint_watch.period < kLeastEndpointCheck) {
    return absl::InvalidArgumentError(
        absl::StrCat("--endpoint-check is at least ", absl::FormatDuration(kLeastEndpointCheck),
                     ", not ", absl::FormatDuration(settings->worker.endpoint_watch.period)));
  }
  absl::Status status = SettlePolling(app, flags, settings);
  if (status.ok()) status = SettleLeases(app, flags, settings);
  if (status.ok()) status = SettleUpload(app, flags, settings);
  if (status.ok()) status = SettleSecurity(*settings);
  return status;
}

}  // namespace invoker::tools

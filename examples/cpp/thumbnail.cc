// Makes a thumbnail of a JPEG on a worker.
//
//   thumbnail --server=127.0.0.1:7000 --input=photo.jpg --output=thumbnail.jpg
//
// The photograph is read straight into the request window, so that it is sent without a copy.

#include <fstream>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "invoker/client.h"

namespace {

absl::Status MakeThumbnail(const std::string& server, const std::string& input,
                           const std::string& output) {
  absl::StatusOr<std::unique_ptr<invoker::Client>> client = invoker::Client::Connect(server);
  if (!client.ok()) return client.status();
  absl::StatusOr<invoker::RemoteFunction> thumbnail = (*client)->Function("thumbnail");
  if (!thumbnail.ok()) return thumbnail.status();

  std::ifstream photograph(input, std::ios::binary | std::ios::ate);
  if (!photograph) return absl::NotFoundError("cannot read " + input);
  const size_t size = static_cast<size_t>(photograph.tellg());
  absl::StatusOr<invoker::Buffer> request = (*client)->AllocateBuffer(size);
  if (!request.ok()) return request.status();
  photograph.seekg(0);
  photograph.read(reinterpret_cast<char*>(request->data().data()),
                  static_cast<std::streamsize>(size));
  if (!photograph) return absl::DataLossError("cannot read all of " + input);

  invoker::CallOptions options;
  options.timeout = absl::Seconds(30);
  absl::StatusOr<invoker::Response> response =
      (*client)->Invoke(*thumbnail, {*request, size}, options);
  if (!response.ok()) return response.status();
  std::ofstream file(output, std::ios::binary);
  file << response->text();
  file.close();
  if (!file) return absl::DataLossError("cannot write " + output);
  std::cout << input << " (" << size << " bytes) -> " << output << " (" << response->size()
            << " bytes) over " << (*client)->provider() << "\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes a thumbnail of a JPEG on a worker.");
  std::string server;
  std::string input = "/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg";
  std::string output = "thumbnail.jpg";
  app.add_option("--server", server, "HOST:PORT of an invoker_server")->required();
  app.add_option("--input", input, "a JPEG file")->capture_default_str();
  app.add_option("--output", output, "where the thumbnail goes")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = MakeThumbnail(server, input, output);
  if (status.ok()) return 0;
  std::cerr << "thumbnail: " << status << "\n";
  return 1;
}

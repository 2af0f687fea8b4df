// invoker_self_test on fabrics that lose immediates, as its environment says: LOSE is a number of
// LoseImmediates::How, LOSE_PROVIDER the provider that is concerned, or empty.

#include <cstdlib>
#include <string>

#include "src/transport/self_test/self_test_program.h"
#include "tests/integration/lost_immediates.h"

int main(int argc, char** argv) {
  const char* const how = std::getenv("LOSE");
  const char* const provider = std::getenv("LOSE_PROVIDER");
  if (how == nullptr || provider == nullptr) return 2;
  const invoker::LoseImmediates lose(static_cast<invoker::LoseImmediates::How>(std::atoi(how)),
                                     provider);
  return invoker::transport::RunSelfTestProgram(argc, argv);
}

// Judges the calls of one session's client, each by itself.

#ifndef INVOKER_TESTS_SOAK_LEDGER_CHECK_H_
#define INVOKER_TESTS_SOAK_LEDGER_CHECK_H_

#include <string>

#include "tests/soak/ledger.h"

namespace invoker::soak {

// Empty if every call that was sent was executed once, or, of a client that was `killed`, at most
// once, and what was answered was executed, and nothing else was. Else what is wrong with the first
// that is not so. Once nothing of the client's can run any more.
std::string WrongCall(const ClientRecord& record, bool killed);

}  // namespace invoker::soak

#endif  // INVOKER_TESTS_SOAK_LEDGER_CHECK_H_

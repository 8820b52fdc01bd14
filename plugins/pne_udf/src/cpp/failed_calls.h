// Tells the recording of a graph which calls have failed, and with which messages.
//
// One message for each: head 256 (type raw, no transaction), then little-endian
//   "dflowfc1" | u32 function | u32 messages | u32 1 if they were taken from queues | u32 0
//   | u32 input of each message | padding to 8 | u64 bytes of the error's aux section | u64 bytes of each message
//   | aux section | messages, each with its head and its own aux section
// The reader is dflow_core/executor/failed_calls.py. Nothing waits for it: what finds no room is not recorded.
#ifndef DFLOW_UDF_FAILED_CALLS_H
#define DFLOW_UDF_FAILED_CALLS_H

#include <utility>
#include <vector>

#include "message.h"

namespace dflow {
// A message a call had: the input of its function, and where it lies.
struct Given {
    uint32_t input;
    Head head; // as it came
    View body;
    View aux;
};

class FailedCalls {
public:
    // `queue`: null where nobody records.
    FailedCalls(Bus *bus, const uint32_t *queue)
        : bus_(bus), is_wanted_(queue != nullptr), queue_(queue == nullptr ? 0 : *queue)
    {}

    bool is_wanted() const
    {
        return is_wanted_;
    }

    // A call has failed; before its error is sent.
    void Tell(uint32_t function, bool is_stream, const std::vector<Given> &given, const ErrorInfo &error) const;

private:
    Bus *bus_;
    bool is_wanted_;
    uint32_t queue_;
};

// A set of inputs as they came.
std::vector<Given> GivenOf(const std::vector<MessagePtr> &set);

// The message in a block.
Given GivenIn(uint32_t input, const Block &block);
}  // namespace dflow

#endif  // DFLOW_UDF_FAILED_CALLS_H

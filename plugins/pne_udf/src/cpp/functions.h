// The user's functions of one instance: made, initialised, reset and destroyed, one at a time in a process.
#ifndef DFLOW_UDF_FUNCTIONS_H
#define DFLOW_UDF_FUNCTIONS_H

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contexts.h"
#include "flow_func/meta_flow_func.h"
#include "flow_func/meta_multi_func.h"

namespace dflow {
// Codes of user functions that are no errors.
constexpr int32_t kInitAgain = 0x90;
constexpr int32_t kProcPending = 0x91;

// What came of running user code.
struct Outcome {
    int32_t code = 0;
    std::string error_type; // type of an exception that escaped
    std::string message;    // its text

    bool is_exception() const
    {
        return !error_type.empty();
    }
};

// Run user code; what it throws becomes an outcome.
Outcome Guarded(const std::function<int32_t()> &code);

// One function: the object of a single function, or one of the two kinds of wrappers.
struct Callee {
    std::shared_ptr<FlowFunc::MetaFlowFunc> single;
    FlowFunc::PROC_FUNC_WITH_CONTEXT plain;
    FlowFunc::PROC_FUNC_WITH_CONTEXT_Q queue;
    std::unique_ptr<SingleContext> context;

    bool is_made() const
    {
        return single != nullptr || plain != nullptr || queue != nullptr;
    }
};

class Functions {
public:
    explicit Functions(Node *node) : node_(node), params_(std::make_shared<Params>(node)) {}

    // Make the function of that name; false with a reason if nobody registered it, or it cannot be made.
    bool Make(const std::string &name, Callee *callee, std::string *fault);

    // Call Init: of a single function each time, of the shared object once.
    Outcome Init(Callee *callee, const std::shared_ptr<RunContext> &run);

    // Call ResetFlowFuncState: true if all of them could; then nothing has to be made anew.
    bool Reset(const std::vector<Callee *> &callees);

    // Destroy all functions.
    void Release(const std::vector<Callee *> &callees);

private:
    template <typename Creator, typename Wrapper>
    bool MakeMulti(const std::string &name, const Creator *creator, std::map<FlowFunc::AscendString, Wrapper> *wrappers,
                   std::string *fault);

    Node *node_;
    std::shared_ptr<Params> params_;
    std::shared_ptr<FlowFunc::MetaMultiFunc> multi_;
    bool is_multi_ready_ = false;
    std::map<FlowFunc::AscendString, FlowFunc::PROC_FUNC_WITH_CONTEXT> plain_;
    std::map<FlowFunc::AscendString, FlowFunc::PROC_FUNC_WITH_CONTEXT_Q> queue_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_FUNCTIONS_H

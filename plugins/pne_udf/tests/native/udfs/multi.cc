// Multi functions, written as users write them: several functions on one object, some with queues.
#include <atomic>
#include <cstdio>
#include <cstring>

#include "flow_func_log.h"
#include "meta_multi_func.h"

namespace {
using FlowFunc::FlowMsg;
using FlowFunc::FlowMsgQueue;
using FlowFunc::MetaRunContext;
using FlowFunc::TensorDataType;
using Context = std::shared_ptr<MetaRunContext>;
using Messages = std::vector<std::shared_ptr<FlowMsg>>;
using Queues = std::vector<std::shared_ptr<FlowMsgQueue>>;

std::shared_ptr<FlowMsg> Number(const Context &context, int64_t value)
{
    const auto out = context->AllocTensorMsg({1}, TensorDataType::DT_INT64);
    *static_cast<int64_t *>(out->GetTensor()->GetData()) = value;
    return out;
}

class Counter : public FlowFunc::MetaMultiFunc {
public:
    int32_t Init(const std::shared_ptr<FlowFunc::MetaParams> &params) override
    {
        params_ = params;
        inits_++;
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    int32_t ResetFlowFuncState(const std::shared_ptr<FlowFunc::MetaParams> &params) override
    {
        bool is_supported = false;
        (void)params->GetAttr("resets", is_supported);
        calls_ = 0;
        return is_supported ? FlowFunc::FLOW_FUNC_SUCCESS : FlowFunc::FLOW_FUNC_ERR_NOT_SUPPORT;
    }

    // How many calls both functions had, and how often Init was called.
    int32_t First(const Context &context, const Messages &)
    {
        calls_++;
        return context->SetOutput(0, Number(context, calls_ * 1000 + inits_));
    }

    int32_t Second(const Context &context, const Messages &)
    {
        calls_++;
        return context->SetOutput(1, Number(context, calls_ * 1000 + inits_));
    }

private:
    std::shared_ptr<FlowFunc::MetaParams> params_;
    std::atomic<int64_t> calls_{0};
    std::atomic<int64_t> inits_{0};
};

class Streams : public FlowFunc::MetaMultiFunc {
public:
    // Sends each message on, as it came.
    int32_t Forward(const Context &context, const Queues &queues)
    {
        for (;;) {
            std::shared_ptr<FlowMsg> msg;
            const int32_t code = queues[0]->Dequeue(msg);
            if (msg == nullptr) {
                return code;
            }
            (void)context->SetOutput(0, msg);
        }
    }

    // The same for a message that it is given.
    int32_t Echo(const Context &context, const Messages &inputs)
    {
        return context->SetOutput(1, inputs[0]);
    }

    // Sums pairs: message k of one output for messages 2k - 1 and 2k of the input.
    int32_t Pairs(const Context &context, const Queues &queues)
    {
        int64_t sum = 0;
        for (int i = 0; i < 2; i++) {
            std::shared_ptr<FlowMsg> msg;
            const int32_t code = queues[0]->Dequeue(msg, 5000);
            if (code != FlowFunc::FLOW_FUNC_SUCCESS) {
                return code;
            }
            sum += *static_cast<int64_t *>(msg->GetTensor()->GetData());
        }
        return context->SetOutput(0, Number(context, sum));
    }

    // Sends even numbers on and forgets the others.
    int32_t Even(const Context &context, const Queues &queues)
    {
        std::shared_ptr<FlowMsg> msg;
        const int32_t code = queues[0]->Dequeue(msg);
        if (code != FlowFunc::FLOW_FUNC_SUCCESS) {
            return code;
        }
        if (*static_cast<int64_t *>(msg->GetTensor()->GetData()) % 2 != 0) {
            return FlowFunc::FLOW_FUNC_SUCCESS;
        }
        return context->SetOutput(0, msg);
    }

    // The codes that Dequeue gives at once and after a time, depth and size.
    int32_t Times(const Context &context, const Queues &queues)
    {
        std::shared_ptr<FlowMsg> msg;
        (void)queues[0]->Dequeue(msg, -1);
        if (msg == nullptr) {
            return FlowFunc::FLOW_FUNC_SUCCESS;
        }
        std::shared_ptr<FlowMsg> none;
        const int32_t at_once = queues[0]->Dequeue(none, 0);
        const int32_t later = queues[0]->Dequeue(none, 20);
        const auto out = context->AllocTensorMsg({4}, TensorDataType::DT_INT32);
        const int32_t values[] = {at_once, later, queues[0]->Depth(), queues[0]->Size()};
        memcpy(out->GetTensor()->GetData(), values, sizeof(values));
        out->SetTransactionId(msg->GetTransactionId());
        return context->SetOutput(0, out);
    }

    // The same, and says with which code the last wait ended.
    int32_t Tells(const Context &context, const Queues &queues)
    {
        const int32_t code = Forward(context, queues);
        (void)fprintf(stderr, "the wait ended with %d\n", code);
        return code;
    }

    // Fails with whatever it has taken.
    int32_t Fails(const Context &, const Queues &queues)
    {
        std::shared_ptr<FlowMsg> msg;
        const int32_t code = queues[0]->Dequeue(msg);
        return msg == nullptr ? code : 9900020;
    }
};

FLOW_FUNC_REGISTRAR(Counter).RegProcFunc("first", &Counter::First).RegProcFunc("second", &Counter::Second);
FLOW_FUNC_REGISTRAR(Streams)
    .RegProcFunc("forward", &Streams::Forward)
    .RegProcFunc("echo", &Streams::Echo)
    .RegProcFunc("pairs", &Streams::Pairs)
    .RegProcFunc("even", &Streams::Even)
    .RegProcFunc("times", &Streams::Times)
    .RegProcFunc("tells", &Streams::Tells)
    .RegProcFunc("stream_fails", &Streams::Fails);
}  // namespace

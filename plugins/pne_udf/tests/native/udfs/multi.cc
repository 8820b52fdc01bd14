// Multi functions, written as users write them: several functions on one object, some with queues.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "dflow/transaction.h"
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

    // Sums pairs of two queues, whose messages live only as long as they are read; the answer names its transaction.
    int32_t Twins(const Context &context, const Queues &queues)
    {
        int64_t sum = 0;
        uint64_t trans_id = 0;
        for (const auto &queue : queues) {
            std::shared_ptr<FlowMsg> msg;
            const int32_t code = queue->Dequeue(msg);
            if (code != FlowFunc::FLOW_FUNC_SUCCESS) {
                return code;
            }
            sum = sum * 100 + *static_cast<int64_t *>(msg->GetTensor()->GetData());
            trans_id = msg->GetTransactionId();
        }
        const auto out = Number(context, sum);
        out->SetTransactionId(trans_id);
        return context->SetOutput(0, out);
    }

    // The same in a loop, whatever it is told; answers come in order and name nothing.
    int32_t Siblings(const Context &context, const Queues &queues)
    {
        for (;;) {
            std::shared_ptr<FlowMsg> left;
            std::shared_ptr<FlowMsg> right;
            int32_t code = queues[0]->Dequeue(left);
            code = code == FlowFunc::FLOW_FUNC_SUCCESS ? queues[1]->Dequeue(right) : code;
            if (code == FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED) {
                continue;
            }
            if (code != FlowFunc::FLOW_FUNC_SUCCESS) {
                return code;
            }
            const auto value = [](const std::shared_ptr<FlowMsg> &msg) {
                return *static_cast<int64_t *>(msg->GetTensor()->GetData());
            };
            (void)context->SetOutput(0, Number(context, value(left) * 100 + value(right)));
        }
    }

    // Works on its message until nobody wants it any more.
    int32_t Endless(const Context &context, const Queues &queues)
    {
        std::shared_ptr<FlowMsg> msg;
        const int32_t code = queues[0]->Dequeue(msg);
        if (code != FlowFunc::FLOW_FUNC_SUCCESS) {
            return code;
        }
        int64_t asked = 0;
        while (asked < 10000 && !dflow::IsCancelled(msg)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            asked++;
        }
        const auto out = Number(context, asked < 10000 && !dflow::IsCancelled(nullptr));
        out->SetTransactionId(msg->GetTransactionId());
        return context->SetOutput(0, out);
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
    .RegProcFunc("twins", &Streams::Twins)
    .RegProcFunc("siblings", &Streams::Siblings)
    .RegProcFunc("endless", &Streams::Endless)
    .RegProcFunc("tells", &Streams::Tells)
    .RegProcFunc("stream_fails", &Streams::Fails);
}  // namespace

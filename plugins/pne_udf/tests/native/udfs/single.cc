// Single functions, written as users write them.
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "flow_func/flow_func_log.h"
#include "flow_func/meta_flow_func.h"

namespace Sample {
using FlowFunc::FlowMsg;
using Messages = std::vector<std::shared_ptr<FlowMsg>>;

class Pass : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const Messages &inputs) override
    {
        return context_->SetOutput(0, inputs[0]);
    }
};

// Sends its first input on, whatever the others are.
class First : public Pass {
public:
    int32_t Proc(const Messages &inputs) override
    {
        codes_ = 0;
        for (const auto &input : inputs) {
            codes_ += input->GetRetCode() == FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED ? 1 : 0;
        }
        if (codes_ == 0) {
            return context_->SetOutput(0, inputs[0]);
        }
        const auto out = context_->AllocTensorMsg({}, FlowFunc::TensorDataType::DT_INT32);
        *static_cast<int32_t *>(out->GetTensor()->GetData()) = codes_;
        return context_->SetOutput(0, out);
    }

private:
    int32_t codes_ = 0;
};

// Keeps its inputs until there are three, then sends their count for the last one.
class Buffer : public Pass {
public:
    int32_t Proc(const Messages &inputs) override
    {
        kept_.push_back(inputs[0]);
        if (kept_.size() < 3) {
            return 0;
        }
        const auto out = context_->AllocTensorMsg({}, FlowFunc::TensorDataType::DT_INT32);
        *static_cast<int32_t *>(out->GetTensor()->GetData()) = static_cast<int32_t>(kept_.size());
        kept_.clear();
        return context_->SetOutput(0, out);
    }

private:
    Messages kept_;
};

// Adds two float tensors of one shape.
class Add : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        return context_->GetInputNum() == 2 ? FlowFunc::FLOW_FUNC_SUCCESS : FlowFunc::FLOW_FUNC_FAILED;
    }

    int32_t Proc(const Messages &inputs) override
    {
        FlowFunc::Tensor *const a = inputs[0]->GetTensor();
        FlowFunc::Tensor *const b = inputs[1]->GetTensor();
        if (a == nullptr || b == nullptr || a->GetElementCnt() != b->GetElementCnt()) {
            FLOW_FUNC_LOG_ERROR("the inputs do not fit");
            return FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
        }
        const auto out = context_->AllocTensorMsg(a->GetShape(), a->GetDataType());
        if (out == nullptr) {
            return FlowFunc::FLOW_FUNC_ERR_MEM_BUF_ERROR;
        }
        const auto *const x = static_cast<const float *>(a->GetData());
        const auto *const y = static_cast<const float *>(b->GetData());
        auto *const sum = static_cast<float *>(out->GetTensor()->GetData());
        for (int64_t i = 0; i < a->GetElementCnt(); i++) {
            sum[i] = x[i] + y[i];
        }
        return context_->SetOutput(0, out);
    }
};

// Does what the first element of its int32 input says.
class Behave : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        int64_t code = 0;
        (void)context_->GetAttr("init_code", code);
        bool throws = false;
        (void)context_->GetAttr("init_throws", throws);
        if (throws) {
            throw std::runtime_error("no such model file");
        }
        int64_t again = 0;
        (void)context_->GetAttr("init_again", again);
        return again > tries_++ ? 0x90 : static_cast<int32_t>(code);
    }

    int32_t Proc(const Messages &inputs) override
    {
        FlowFunc::Tensor *const tensor = inputs[0]->GetTensor();
        const int32_t what = tensor == nullptr ? 0 : *static_cast<int32_t *>(tensor->GetData());
        switch (what) {
            case 1: // nothing
                return 0;
            case 2: // a code
                return 9900007;
            case 3:
                throw std::out_of_range("index 7 of 3");
            case 4:
                throw 42;
            case 5: // three parts
                for (int32_t i = 0; i < 3; i++) {
                    Send(i);
                }
                return 0;
            case 6: // a part, then an error
                Send(1);
                Send(2);
                return 9900008;
            case 7: // a code of the message
                inputs[0]->SetRetCode(9900009);
                return context_->SetOutput(0, inputs[0]);
            case 8:
                return context_->SetOutput(0, context_->AllocEmptyDataMsg(FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA));
            case 9: { // for another transaction
                const auto out = context_->AllocTensorMsg({1}, FlowFunc::TensorDataType::DT_INT32);
                out->SetTransactionId(77);
                return context_->SetOutput(0, out);
            }
            case 10:
                context_->RaiseException(9900010, 5);
                return 0;
            case 11: // the same message twice
                (void)context_->SetOutput(0, inputs[0]);
                return context_->SetOutput(0, inputs[0]);
            case 12:
                *static_cast<volatile int *>(nullptr) = 1;
                return 0;
            case 13: // held back, then an error
                Send(1);
                return 9900013;
            case 14: { // answered by another thread, later
                const auto kept = inputs[0];
                FlowFunc::MetaContext *const context = context_;
                thread_ = std::thread([kept, context] { (void)context->SetOutput(0, kept); });
                return 0;
            }
            case 15: { // several threads crash at once
                std::atomic<int> ready{0};
                std::vector<std::thread> threads;
                for (int i = 0; i < 4; i++) {
                    threads.emplace_back([&ready] {
                        for (ready++; ready < 4;) {
                        }
                        *static_cast<volatile int *>(nullptr) = 1;
                    });
                }
                threads[0].join();
                return 0;
            }
            default:
                return context_->SetOutput(0, inputs[0]);
        }
    }

    ~Behave() override
    {
        if (thread_.joinable()) {
            thread_.join();
        }
    }

private:
    void Send(int32_t value)
    {
        const auto out = context_->AllocTensorMsg({1}, FlowFunc::TensorDataType::DT_INT32);
        *static_cast<int32_t *>(out->GetTensor()->GetData()) = value;
        (void)context_->SetOutput(0, out);
    }

    int64_t tries_ = 0;
    std::thread thread_;
};

class Broken : public FlowFunc::MetaFlowFunc {
public:
    Broken()
    {
        throw std::logic_error("this one is never made");
    }

    int32_t Init() override
    {
        return 0;
    }

    int32_t Proc(const Messages &) override
    {
        return 0;
    }
};

// Has no input: counts up to the attribute `count`, then waits.
class Source : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        return context_->GetAttr("count", count_);
    }

    int32_t Proc(const Messages &inputs) override
    {
        if (!inputs.empty() || done_ == count_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return 0;
        }
        const auto out = context_->AllocTensorMsg({1024}, FlowFunc::TensorDataType::DT_FLOAT);
        done_++;
        return out == nullptr ? FlowFunc::FLOW_FUNC_FAILED : context_->SetOutput(0, out);
    }

private:
    int64_t count_ = 0;
    int64_t done_ = 0;
};

REGISTER_FLOW_FUNC("pass", Pass);
REGISTER_FLOW_FUNC("first_input", First);
REGISTER_FLOW_FUNC("buffer", Buffer);
REGISTER_FLOW_FUNC("add", Add);
REGISTER_FLOW_FUNC("behave", Behave);
REGISTER_FLOW_FUNC("broken", Broken);
REGISTER_FLOW_FUNC("source", Source);
}  // namespace Sample

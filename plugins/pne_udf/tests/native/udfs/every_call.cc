// One function for each part of the API; each checks itself and sends one int64: the line that failed, or 0.
#include <cmath>
#include <cstring>
#include <limits>

#include "flow_func/flow_func_log.h"
#include "flow_func/meta_flow_func.h"
#include "flow_func/meta_multi_func.h"

namespace {
using namespace FlowFunc;
using Context = std::shared_ptr<MetaRunContext>;
using Messages = std::vector<std::shared_ptr<FlowMsg>>;

#define EXPECT(condition)                              \
    do {                                               \
        if (!(condition)) {                            \
            return Report(context, __LINE__);          \
        }                                              \
    } while (false)

int32_t Report(const Context &context, int64_t line)
{
    const auto out = context->AllocTensorMsg({}, TensorDataType::DT_INT64);
    *static_cast<int64_t *>(out->GetTensor()->GetData()) = line;
    return context->SetOutput(0, out);
}

// A message of the user's own: cannot be sent.
class Foreign : public FlowMsg {
public:
    MsgType GetMsgType() const override { return MsgType::MSG_TYPE_USER_DEFINE_START; }
    Tensor *GetTensor() const override { return nullptr; }
    int32_t GetRetCode() const override { return 0; }
    void SetRetCode(int32_t) override {}
    void SetStartTime(uint64_t) override {}
    uint64_t GetStartTime() const override { return 0; }
    void SetEndTime(uint64_t) override {}
    uint64_t GetEndTime() const override { return 0; }
    void SetFlowFlags(uint32_t) override {}
    uint32_t GetFlowFlags() const override { return 0; }
    void SetRouteLabel(uint32_t) override {}
};

class Checks : public MetaMultiFunc {
public:
    int32_t Init(const std::shared_ptr<MetaParams> &params) override
    {
        params_ = params;
        return FLOW_FUNC_SUCCESS;
    }

    int32_t Attributes(const Context &context, const Messages &)
    {
        AscendString text;
        EXPECT(params_->GetAttr("text", text) == 0 && text == "hello");
        int64_t number = 0;
        EXPECT(params_->GetAttr("number", number) == 0 && number == -5);
        float real = 0;
        EXPECT(params_->GetAttr("real", real) == 0 && real == 2.5F);
        bool flag = false;
        EXPECT(params_->GetAttr("flag", flag) == 0 && flag);
        TensorDataType type = TensorDataType::DT_UNDEFINED;
        EXPECT(params_->GetAttr("type", type) == 0 && type == TensorDataType::DT_BF16);
        std::vector<AscendString> texts;
        EXPECT(params_->GetAttr("texts", texts) == 0 && texts.size() == 2 && texts[1] == "b");
        std::vector<int64_t> numbers{9};
        EXPECT(params_->GetAttr("numbers", numbers) == 0 && numbers == (std::vector<int64_t>{9, 1, 2}));
        std::vector<float> reals;
        EXPECT(params_->GetAttr("reals", reals) == 0 && reals == (std::vector<float>{0.5F, 1.5F}));
        std::vector<bool> flags;
        EXPECT(params_->GetAttr("flags", flags) == 0 && flags == (std::vector<bool>{true, false}));
        std::vector<TensorDataType> types;
        EXPECT(params_->GetAttr("types", types) == 0 && types.size() == 1 && types[0] == TensorDataType::DT_UINT16);
        std::vector<std::vector<int64_t>> lists;
        EXPECT(params_->GetAttr("lists", lists) == 0 && lists == (std::vector<std::vector<int64_t>>{{1, 2}, {3}}));
        EXPECT(params_->GetAttr("number", real) == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH);
        EXPECT(params_->GetAttr("real", number) == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH);
        EXPECT(params_->GetAttr("number", numbers) == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH);
        reals.clear();
        EXPECT(params_->GetAttr("numbers", reals) == 0 && reals.empty());
        EXPECT(params_->GetAttr("none", number) == FLOW_FUNC_ERR_ATTR_NOT_EXITS);
        EXPECT(params_->GetAttr(nullptr, number) == FLOW_FUNC_ERR_ATTR_NOT_EXITS);
        EXPECT(params_->GetAttr("none") == nullptr && params_->GetAttr("text") != nullptr);
        return Report(context, 0);
    }

    int32_t Parameters(const Context &context, const Messages &)
    {
        EXPECT(strcmp(params_->GetName(), "node") == 0);
        EXPECT(params_->GetInputNum() == 1 && params_->GetOutputNum() == 2);
        EXPECT(strcmp(params_->GetWorkPath(), "/some/folder") == 0);
        EXPECT(params_->GetRunningDeviceId() == 3);
        EXPECT(params_->GetRunningInstanceId() == 1 && params_->GetRunningInstanceNum() == 4);
        return Report(context, 0);
    }

    int32_t Head(const Context &context, const Messages &inputs)
    {
        FlowMsg &in = *inputs[0];
        EXPECT(in.GetMsgType() == MsgType::MSG_TYPE_TENSOR_DATA && in.GetRetCode() == 0);
        EXPECT(in.GetStartTime() == 11 && in.GetEndTime() == 22 && in.GetTransactionId() == 7);
        EXPECT(in.GetFlowFlags() == (static_cast<uint32_t>(FlowFlag::FLOW_FLAG_EOS) |
                                     static_cast<uint32_t>(FlowFlag::FLOW_FLAG_SEG)));
        char data[8] = "";
        EXPECT(context->GetUserData(data, 4, 2) == 0 && memcmp(data, "cdef", 4) == 0);
        EXPECT(context->GetUserData(nullptr, 4) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->GetUserData(data, 0) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->GetUserData(data, 1, 64) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->GetUserData(data, 5, 60) == FLOW_FUNC_ERR_PARAM_INVALID);
        const auto out = context->AllocTensorMsg({2, 2}, TensorDataType::DT_FLOAT);
        EXPECT(out->GetStartTime() == 11 && out->GetEndTime() == 22 && out->GetTransactionId() == 7);
        EXPECT(out->GetFlowFlags() == 3 && out->GetRetCode() == 0);
        out->SetStartTime(33);
        out->SetEndTime(44);
        out->SetFlowFlags(1);
        out->SetRouteLabel(5);
        out->SetRetCode(0);
        EXPECT(out->GetStartTime() == 33 && out->GetEndTime() == 44 && out->GetFlowFlags() == 1);
        memset(out->GetTensor()->GetData(), 0, out->GetTensor()->GetDataSize());
        EXPECT(context->SetOutput(1, out) == 0);
        return Report(context, 0);
    }

    int32_t Tensors(const Context &context, const Messages &)
    {
        const auto scalar = context->AllocTensorMsg({}, TensorDataType::DT_DOUBLE);
        EXPECT(scalar->GetTensor()->GetElementCnt() == 1 && scalar->GetTensor()->GetDataSize() == 8);
        EXPECT(scalar->GetTensor()->GetShape().empty());
        const struct {
            TensorDataType type;
            uint64_t bytes; // of eleven elements
        } sizes[] = {
            {TensorDataType::DT_FLOAT, 44},   {TensorDataType::DT_FLOAT16, 22}, {TensorDataType::DT_INT8, 11},
            {TensorDataType::DT_INT32, 44},   {TensorDataType::DT_UINT8, 11},   {TensorDataType::DT_INT16, 22},
            {TensorDataType::DT_UINT16, 22},  {TensorDataType::DT_UINT32, 44},  {TensorDataType::DT_INT64, 88},
            {TensorDataType::DT_UINT64, 88},  {TensorDataType::DT_DOUBLE, 88},  {TensorDataType::DT_BOOL, 11},
            {TensorDataType::DT_QINT8, 11},   {TensorDataType::DT_QINT16, 22},  {TensorDataType::DT_QINT32, 44},
            {TensorDataType::DT_QUINT8, 11},  {TensorDataType::DT_QUINT16, 22}, {TensorDataType::DT_DUAL, 55},
            {TensorDataType::DT_BF16, 22},    {TensorDataType::DT_INT4, 6},     {TensorDataType::DT_UINT1, 2},
            {TensorDataType::DT_INT2, 3},     {TensorDataType::DT_UINT2, 3},
        };
        for (const auto &size : sizes) {
            const auto msg = context->AllocTensorMsg({11}, size.type);
            EXPECT(msg != nullptr && msg->GetTensor()->GetDataType() == size.type);
            EXPECT(msg->GetTensor()->GetDataSize() == size.bytes && msg->GetTensor()->GetElementCnt() == 11);
            EXPECT(msg->GetTensor()->GetDataBufferSize() >= size.bytes);
        }
        EXPECT(context->AllocTensorMsg({1}, TensorDataType::DT_UNDEFINED) == nullptr);
        EXPECT(context->AllocTensorMsg({2, -1}, TensorDataType::DT_FLOAT) == nullptr);
        EXPECT(context->AllocTensorMsg({1LL << 40, 1LL << 40}, TensorDataType::DT_FLOAT) == nullptr);
        EXPECT(context->AllocTensorMsg(std::vector<int64_t>(33, 1), TensorDataType::DT_FLOAT) == nullptr);
        EXPECT(context->AllocTensorMsg(std::vector<int64_t>(32, 1), TensorDataType::DT_FLOAT) != nullptr);
        EXPECT(context->AllocTensorMsg({0, 5}, TensorDataType::DT_FLOAT)->GetTensor()->GetDataSize() == 0);
        const auto msg = context->AllocTensorMsg({2, 6}, TensorDataType::DT_INT8);
        Tensor *const tensor = msg->GetTensor();
        EXPECT(tensor->Reshape({3, 4}) == 0 && tensor->GetShape() == (std::vector<int64_t>{3, 4}));
        EXPECT(tensor->Reshape({5}) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(tensor->Reshape(std::vector<int64_t>(33, 1)) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(msg->GetTensorList().size() == 1 && msg->GetTensorList()[0] == tensor);
        void *data = nullptr;
        uint64_t size = 0;
        EXPECT(msg->GetRawData(data, size) == 0 && size == 1024 + 12);
        EXPECT(static_cast<char *>(data) + 1024 == tensor->GetData());
        return Report(context, 0);
    }

    int32_t Allocators(const Context &context, const Messages &)
    {
        const TensorDataType type = TensorDataType::DT_INT8;
        for (const uint32_t align : {32U, 64U, 128U, 256U, 512U, 1024U}) {
            EXPECT(context->AllocTensorMsgWithAlign({3}, type, align) != nullptr);
            EXPECT(context->AllocTensorListMsg({{3}}, {type}, align) != nullptr);
        }
        for (const uint32_t align : {0U, 16U, 33U, 96U, 2048U}) {
            EXPECT(context->AllocTensorMsgWithAlign({3}, type, align) == nullptr);
            EXPECT(context->AllocTensorListMsg({{3}}, {type}, align) == nullptr);
        }
        EXPECT(context->AllocTensorListMsg({{3}, {4}}, {type}) == nullptr);
        const auto list = context->AllocTensorListMsg({{3}, {2, 2}}, {type, TensorDataType::DT_FLOAT}, 64);
        EXPECT(list->GetMsgType() == MsgType::MSG_TYPE_TENSOR_LIST && list->GetTensorList().size() == 2);
        EXPECT(list->GetTensorList()[0]->GetDataSize() == 3 && list->GetTensorList()[1]->GetDataSize() == 16);
        EXPECT(list->GetTensorList()[0]->GetDataBufferSize() == 64);
        EXPECT(list->GetTensor() == list->GetTensorList()[0]);
        const auto raw = context->AllocRawDataMsg(10);
        void *data = nullptr;
        uint64_t size = 0;
        EXPECT(raw->GetMsgType() == MsgType::MSG_TYPE_RAW_MSG && raw->GetTensor() == nullptr);
        EXPECT(raw->GetRawData(data, size) == 0 && size == 10);
        EXPECT(context->AllocRawDataMsg(-1) == nullptr);
        EXPECT(context->AllocRawDataMsg(std::numeric_limits<int64_t>::max()) == nullptr);
        const auto empty = context->AllocEmptyDataMsg(MsgType::MSG_TYPE_TENSOR_DATA);
        EXPECT(empty != nullptr && empty->GetTensor() == nullptr && empty->GetTensorList().empty());
        EXPECT(context->AllocEmptyDataMsg(MsgType::MSG_TYPE_RAW_MSG) == nullptr);
        const auto tensor = FlowBufferFactory::AllocTensor({5}, TensorDataType::DT_INT32);
        EXPECT(tensor != nullptr && tensor->GetDataSize() == 20);
        EXPECT(FlowBufferFactory::AllocTensor({-5}, TensorDataType::DT_INT32) == nullptr);
        const auto msg = context->ToFlowMsg(tensor);
        EXPECT(msg != nullptr && msg->GetTransactionId() == 7 && msg->GetTensor()->GetData() == tensor->GetData());
        EXPECT(context->ToFlowMsg(nullptr) == nullptr);
        raw->SetMsgType(static_cast<MsgType>(2000));
        EXPECT(raw->GetMsgType() == static_cast<MsgType>(2000));
        return Report(context, 0);
    }

    int32_t Outputs(const Context &context, const Messages &)
    {
        EXPECT(context->SetOutput(5, context->AllocRawDataMsg(4)) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->SetOutput(1, nullptr) == 0);
        EXPECT(context->SetOutput(1, std::make_shared<Foreign>()) == FLOW_FUNC_ERR_PARAM_INVALID);
        OutOptions options;
        EXPECT(options.GetBalanceConfig() == nullptr);
        EXPECT(context->SetMultiOutputs(1, {}, options) == 0);
        BalanceConfig *const balance = options.MutableBalanceConfig();
        EXPECT(balance != nullptr && options.GetBalanceConfig() == balance);
        EXPECT(balance->GetAffinityPolicy() == AffinityPolicy::NO_AFFINITY && balance->GetDataPos().empty());
        BalanceWeight weight;
        EXPECT(sizeof(weight) == 16 && balance->GetBalanceWeight().rowNum == 0);
        weight.rowNum = 2;
        weight.colNum = 3;
        balance->SetBalanceWeight(weight);
        const Messages two{context->AllocRawDataMsg(1), context->AllocRawDataMsg(2)};
        balance->SetDataPos({{0, 0}});
        EXPECT(context->SetMultiOutputs(1, two, options) == FLOW_FUNC_ERR_PARAM_INVALID); // one position for two
        balance->SetDataPos({{0, 0}, {2, 0}});
        EXPECT(context->SetMultiOutputs(1, two, options) == FLOW_FUNC_ERR_PARAM_INVALID); // outside
        balance->SetDataPos({{0, 1}, {1, 2}});
        balance->SetAffinityPolicy(AffinityPolicy::ROW_AFFINITY);
        EXPECT(context->SetMultiOutputs(1, two, options) == FLOW_FUNC_ERR_PARAM_INVALID); // scatter has none
        balance->SetAffinityPolicy(AffinityPolicy::NO_AFFINITY);
        EXPECT(context->SetMultiOutputs(1, two, options) == 0);
        return Report(context, 0);
    }

    // Sends as the input says: number of messages, policy, rows, columns, then row and column of each position.
    int32_t Balance(const Context &context, const Messages &inputs)
    {
        const Tensor &tensor = *inputs[0]->GetTensor();
        const auto *const given = static_cast<const int64_t *>(tensor.GetData());
        OutOptions options;
        BalanceConfig *const balance = options.MutableBalanceConfig();
        balance->SetAffinityPolicy(static_cast<AffinityPolicy>(given[1]));
        BalanceWeight weight;
        weight.rowNum = static_cast<int32_t>(given[2]);
        weight.colNum = static_cast<int32_t>(given[3]);
        balance->SetBalanceWeight(weight);
        std::vector<std::pair<int32_t, int32_t>> positions;
        for (int64_t i = 4; i + 1 < tensor.GetElementCnt(); i += 2) {
            positions.emplace_back(static_cast<int32_t>(given[i]), static_cast<int32_t>(given[i + 1]));
        }
        balance->SetDataPos(positions);
        Messages sent;
        for (int64_t i = 0; i < given[0]; i++) {
            sent.push_back(context->AllocRawDataMsg(1));
        }
        return Report(context, sent.size() == 1 ? context->SetOutput(1, sent[0], options)
                                                : context->SetMultiOutputs(1, sent, options));
    }

    int32_t Invoke(const Context &context, const Messages &inputs)
    {
        Messages results;
        EXPECT(context->RunFlowModel("nothing", inputs, results, 1000) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->RunFlowModel(nullptr, inputs, results, 1000) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->RunFlowModel("model", {}, results, 1000) == FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->RunFlowModel("model", {std::make_shared<Foreign>()}, results, 0) ==
               FLOW_FUNC_ERR_PARAM_INVALID);
        EXPECT(context->RunFlowModel("model", inputs, results, 5000) == 0 && results.size() == 1);
        return context->SetOutput(0, results[0]);
    }

    int32_t Exceptions(const Context &context, const Messages &inputs)
    {
        int32_t code = 1;
        uint64_t user_context_id = 2;
        if (!inputs.empty()) {
            EXPECT(!context->GetException(code, user_context_id) && code == 1 && user_context_id == 2);
            return context->SetOutput(0, inputs[0]);
        }
        if (!context->GetException(code, user_context_id) || code != 9900001 || user_context_id != 6) {
            return FLOW_FUNC_FAILED;
        }
        return context->GetException(code, user_context_id) ? FLOW_FUNC_FAILED : FLOW_FUNC_SUCCESS;
    }

    int32_t Strings(const Context &context, const Messages &)
    {
        const AscendString null;
        const AscendString empty("");
        const AscendString a("a");
        EXPECT(strcmp(null.GetString(), "") == 0 && null.GetLength() == 0 && AscendString(nullptr) == null);
        EXPECT(null < empty && empty < a && null <= null && a >= empty && a > null && null != empty);
        EXPECT(AscendString("ab\0cd", 5).GetLength() == 5 && AscendString("abc", 1) == a);
        const AscendString copy = a;
        EXPECT(copy.GetString() == a.GetString());
        FLOW_FUNC_LOG_DEBUG("debug %d", 1);
        FLOW_FUNC_LOG_INFO("info");
        FLOW_FUNC_LOG_WARN("warn %s", "x");
        FLOW_FUNC_LOG_ERROR("error of a test %d", 4);
        FLOW_FUNC_RUN_LOG_INFO("run info");
        FLOW_FUNC_RUN_LOG_ERROR("run error of a test");
        EXPECT(strncmp(FlowFuncLogger::GetLogExtHeader(), "[tid:", 5) == 0);
        return Report(context, 0);
    }

    // The loggers themselves, at the level that holds where none is set; as many lines as the input says.
    int32_t Logs(const Context &context, const Messages &inputs)
    {
        for (const FlowFuncLogType type : {FlowFuncLogType::DEBUG_LOG, FlowFuncLogType::RUN_LOG}) {
            FlowFuncLogger &logger = FlowFuncLogger::GetLogger(type);
            EXPECT(&logger == &FlowFuncLogger::GetLogger(type));
            EXPECT(logger.IsLogEnable(FlowFuncLogLevel::ERROR) && !logger.IsLogEnable(FlowFuncLogLevel::WARN));
            EXPECT(!logger.IsLogEnable(FlowFuncLogLevel::INFO) && !logger.IsLogEnable(FlowFuncLogLevel::DEBUG));
            logger.Debug("below the level %d", 1);
            logger.Info("below the level %d", 2);
            logger.Warn("below the level %d", 3);
            for (int64_t i = *static_cast<int64_t *>(inputs[0]->GetTensor()->GetData()); i > 0; i--) {
                logger.Error("line %lld of %s", static_cast<long long>(i), "many");
            }
        }
        return Report(context, 0);
    }

    // Registered names and what is refused.
    int32_t Registration(const Context &context, const Messages &)
    {
        const FLOW_FUNC_CREATOR_FUNC other = [] { return std::shared_ptr<MetaFlowFunc>(); };
        EXPECT(!RegisterFlowFunc(nullptr, other) && !RegisterFlowFunc("empty", FLOW_FUNC_CREATOR_FUNC()));
        EXPECT(RegisterFlowFunc("by_hand", other)); // the first one stays
        EXPECT(!RegisterMultiFunc(nullptr, MULTI_FUNC_CREATOR_FUNC()));
        EXPECT(!RegisterMultiFunc("empty", MULTI_FUNC_CREATOR_FUNC()));
        EXPECT(!RegisterMultiFunc("empty", MULTI_FUNC_WITH_Q_CREATOR_FUNC()));
        std::shared_ptr<MetaMultiFunc> made;
        std::map<AscendString, PROC_FUNC_WITH_CONTEXT> functions;
        EXPECT(registrar_.CreateMultiFunc(made, functions) == 0 && made != nullptr && functions.empty());
        std::map<AscendString, PROC_FUNC_WITH_CONTEXT_Q> with_queues;
        EXPECT(registrar_.CreateMultiFuncWithQ(made, with_queues) == 0 && with_queues.empty());
        made = std::make_shared<MetaMultiFunc>(); // of another class
        EXPECT(registrar_.CreateMultiFunc(made, functions) == FLOW_FUNC_FAILED);
        return Report(context, 0);
    }

private:
    std::shared_ptr<MetaParams> params_;
    FlowFuncRegistrar<Checks> registrar_;
};

// Registered without the macro.
class ByHand : public MetaFlowFunc {
public:
    int32_t Init() override { return FLOW_FUNC_SUCCESS; }
    int32_t Proc(const Messages &inputs) override { return context_->SetOutput(0, inputs[0]); }
};

const bool g_is_registered = RegisterFlowFunc("by_hand", [] { return std::make_shared<ByHand>(); });

FLOW_FUNC_REGISTRAR(Checks)
    .RegProcFunc("logs", &Checks::Logs)
    .RegProcFunc("registration", &Checks::Registration)
    .RegProcFunc("attributes", &Checks::Attributes)
    .RegProcFunc("parameters", &Checks::Parameters)
    .RegProcFunc("head", &Checks::Head)
    .RegProcFunc("tensors", &Checks::Tensors)
    .RegProcFunc("allocators", &Checks::Allocators)
    .RegProcFunc("outputs", &Checks::Outputs)
    .RegProcFunc("balance", &Checks::Balance)
    .RegProcFunc("invoke", &Checks::Invoke)
    .RegProcFunc("exceptions", &Checks::Exceptions)
    .RegProcFunc("strings", &Checks::Strings);
}  // namespace

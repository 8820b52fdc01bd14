/// Single functions: one class, one function.
#ifndef FLOW_FUNC_META_FLOW_FUNC_H
#define FLOW_FUNC_META_FLOW_FUNC_H

#include <functional>
#include <memory>
#include <vector>

#include "flow_func_defines.h"
#include "flow_msg.h"
#include "meta_context.h"

namespace FlowFunc {
/// Base of single functions. Each node instance makes its own object.
class FLOW_FUNC_VISIBILITY MetaFlowFunc {
public:
    MetaFlowFunc() = default;

    virtual ~MetaFlowFunc() = default;

    void SetContext(MetaContext *metaContext)
    {
        context_ = metaContext;
    }

    /// Called once before the first message; anything but 0 is an error of start-up.
    virtual int32_t Init() = 0;

    /// Called with one message of each input; they belong to one transaction. Anything but 0 ends that with an error.
    virtual int32_t Proc(const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs) = 0;

    /// Forget what came so far: the graph starts over (`recover`). Where it is not overridden, the object is made anew.
    virtual int32_t ResetFlowFuncState();

protected:
    MetaContext *context_ = nullptr;
};

using FLOW_FUNC_CREATOR_FUNC = std::function<std::shared_ptr<MetaFlowFunc>(void)>;

/// Register a single function. False for a null name or an empty creator; the first of several of one name holds.
FLOW_FUNC_VISIBILITY bool RegisterFlowFunc(const char *flowFuncName, const FLOW_FUNC_CREATOR_FUNC &func) noexcept;
}  // namespace FlowFunc

/// Register class `clazz` as single function `name`, at namespace scope of one source file.
#define REGISTER_FLOW_FUNC(name, clazz) FLOW_FUNC_REGISTER_COUNTED_(__COUNTER__, name, clazz)
#define FLOW_FUNC_REGISTER_COUNTED_(counter, name, clazz) FLOW_FUNC_REGISTER_NAMED_(counter, name, clazz)
#define FLOW_FUNC_REGISTER_NAMED_(counter, name, clazz)                                 \
    static std::shared_ptr<FlowFunc::MetaFlowFunc> FlowFuncCreator_##counter##_##clazz() \
    {                                                                                   \
        return std::make_shared<clazz>();                                               \
    }                                                                                   \
    static bool g_flowFuncRegistered_##counter##_##clazz __attribute__((unused)) =      \
        FlowFunc::RegisterFlowFunc(name, FlowFuncCreator_##counter##_##clazz)

#endif  // FLOW_FUNC_META_FLOW_FUNC_H

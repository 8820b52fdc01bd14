#include "functions.h"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <utility>

#include "log.h"
#include "registry.h"

namespace dflow {
namespace {
std::string CurrentExceptionType()
{
    const std::type_info *const type = abi::__cxa_current_exception_type();
    if (type == nullptr) {
        return "exception";
    }
    int status = 0;
    char *const name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
    std::string text = name == nullptr ? type->name() : name;
    free(name);
    return text;
}
}  // namespace

Outcome Guarded(const std::function<int32_t()> &code)
{
    Outcome outcome;
    try {
        outcome.code = code();
        return outcome;
    } catch (const abi::__forced_unwind &) {
        throw; // the thread is being ended
    } catch (const std::exception &error) {
        outcome.message = error.what();
        outcome.error_type = CurrentExceptionType();
    } catch (const char *text) {
        outcome.message = text == nullptr ? "" : text;
        outcome.error_type = CurrentExceptionType();
    } catch (...) {
        outcome.message = "an object that is no std::exception was thrown";
        outcome.error_type = CurrentExceptionType();
    }
    return outcome;
}

bool Functions::Make(const std::string &name, Callee *callee, std::string *fault)
{
    Registry &registry = Registry::Get();
    const std::lock_guard<std::recursive_mutex> guard(registry.lock());
    if (const auto *const creator = registry.Single(name)) {
        const Outcome outcome = Guarded([&] {
            callee->single = (*creator)();
            return 0;
        });
        if (callee->single == nullptr) {
            *fault = "function " + name + " could not be made: " +
                     (outcome.is_exception() ? outcome.error_type + ": " + outcome.message : "its creator gave nothing");
        }
        return callee->single != nullptr;
    }
    const FlowFunc::AscendString key(name.c_str());
    if (plain_.count(key) == 0 && queue_.count(key) == 0) {
        const auto *const plain = registry.Multi(name);
        const auto *const queue = registry.Queue(name);
        if (plain == nullptr && queue == nullptr) {
            *fault = "function " + name + " is not registered; registered are: " + registry.Names();
            return false;
        }
        if (!MakeMulti(name, plain, &plain_, fault) || !MakeMulti(name, queue, &queue_, fault)) {
            return false;
        }
    }
    const auto plain = plain_.find(key);
    const auto queue = queue_.find(key);
    callee->plain = plain == plain_.end() ? nullptr : plain->second;
    callee->queue = queue == queue_.end() ? nullptr : queue->second;
    if (!callee->is_made()) {
        *fault = "the creator of function " + name + " did not give it";
    }
    return callee->is_made();
}

template <typename Creator, typename Wrapper>
bool Functions::MakeMulti(const std::string &name, const Creator *creator,
                          std::map<FlowFunc::AscendString, Wrapper> *wrappers, std::string *fault)
{
    if (creator == nullptr) {
        return true;
    }
    std::map<FlowFunc::AscendString, Wrapper> made;
    const Outcome outcome = Guarded([&] { return (*creator)(multi_, made); });
    if (outcome.is_exception()) {
        *fault = "function " + name + " could not be made: " + outcome.error_type + ": " + outcome.message;
    } else if (outcome.code != 0) {
        *fault = "function " + name + " could not be made: its creator returned " + std::to_string(outcome.code);
    } else if (multi_ == nullptr) {
        *fault = "function " + name + " could not be made: its creator gave no object";
    }
    if (!fault->empty()) {
        return false;
    }
    for (auto &entry : made) {
        (*wrappers)[entry.first] = std::move(entry.second);
    }
    return true;
}

Outcome Functions::Init(Callee *callee, const std::shared_ptr<RunContext> &run)
{
    const std::lock_guard<std::recursive_mutex> guard(Registry::Get().lock());
    if (callee->single != nullptr) {
        if (callee->context == nullptr) {
            callee->context = std::make_unique<SingleContext>(params_, run);
            callee->single->SetContext(callee->context.get());
        }
        return Guarded([&] { return callee->single->Init(); });
    }
    if (is_multi_ready_) {
        return Outcome();
    }
    Outcome outcome = Guarded([&] { return multi_->Init(params_); });
    is_multi_ready_ = outcome.code == 0 && !outcome.is_exception();
    return outcome;
}

bool Functions::Reset(const std::vector<Callee *> &callees)
{
    const std::lock_guard<std::recursive_mutex> guard(Registry::Get().lock());
    bool is_kept = true;
    const auto reset = [&is_kept](const std::function<int32_t()> &code) {
        const Outcome outcome = Guarded(code);
        is_kept = is_kept && outcome.code == 0 && !outcome.is_exception();
    };
    for (Callee *const callee : callees) {
        if (callee->single != nullptr) {
            reset([callee] { return callee->single->ResetFlowFuncState(); });
        }
    }
    if (multi_ != nullptr) {
        reset([this] { return multi_->ResetFlowFuncState(params_); });
    }
    return is_kept;
}

void Functions::Release(const std::vector<Callee *> &callees)
{
    const std::lock_guard<std::recursive_mutex> guard(Registry::Get().lock());
    const Outcome outcome = Guarded([&] {
        for (Callee *const callee : callees) {
            *callee = Callee();
        }
        plain_.clear();
        queue_.clear();
        multi_.reset();
        return 0;
    });
    if (outcome.is_exception()) {
        Log(Level::kError, "a destructor threw %s: %s", outcome.error_type.c_str(), outcome.message.c_str());
    }
    is_multi_ready_ = false;
}
}  // namespace dflow

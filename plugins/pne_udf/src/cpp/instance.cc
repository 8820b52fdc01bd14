#include "instance.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "crash.h"
#include "library.h"
#include "log.h"
#include "registry.h"

namespace dflow {
namespace {
constexpr auto kInitPause = std::chrono::milliseconds(10);
constexpr auto kIdlePause = std::chrono::milliseconds(10);

// A bus is small and never freed: see Bus::Close. They are listed, so that none counts as lost.
Bus *MakeBus(const dflow_transport *table)
{
    static auto *const all = new std::vector<std::unique_ptr<Bus>>();
    const std::lock_guard<std::recursive_mutex> guard(Registry::Get().lock());
    all->push_back(std::make_unique<Bus>(table));
    return all->back().get();
}

std::chrono::nanoseconds Slice()
{
    return std::chrono::nanoseconds(kSlice);
}
}  // namespace

Instance::Instance(const dflow_udf_config &config, std::string *faults)
{
    *faults = ReadConfig(config, &config_, &node_);
    if (!faults->empty()) {
        return;
    }
    bus_ = MakeBus(config_.table);
    bus_->SetBoard(config.cancelled);
    outputs_ = std::make_unique<Outputs>(bus_, config_.outputs, node_.notices);
    node_.bus = bus_;
    node_.outputs = outputs_.get();
    node_.failed_calls = FailedCalls(bus_, node_.failed_calls_queue);
    node_.failed_calls_queue = nullptr;
    for (const InvokedSpec &spec : config_.invoked) {
        node_.invoked[spec.key] = std::make_unique<InvokedModel>(bus_, spec, node_.cancelled);
    }
    node_.on_raised = [this] {
        const std::lock_guard<std::mutex> guard(lock_);
        has_raised_ = true;
        changed_.notify_all();
    };
    functions_ = std::make_unique<Functions>(&node_);
    for (FuncInfo &info : config_.funcs) {
        info.index = static_cast<uint32_t>(&info - config_.funcs.data());
        std::vector<uint32_t> queues;
        std::vector<DeadPart> dead;
        for (const uint32_t input : info.inputs) {
            queues.push_back(config_.inputs[input]);
        }
        for (const DeadPart &part : config_.dead_parts) {
            DeadPart local{part.trans_id, part.data_label, {}};
            for (uint32_t i = 0; i < info.inputs.size(); i++) {
                if (std::find(part.ports.begin(), part.ports.end(), info.inputs[i]) != part.ports.end()) {
                    local.ports.push_back(i);
                }
            }
            if (!local.ports.empty()) {
                dead.push_back(local);
            }
        }
        processors_.push_back(std::make_unique<Processor>(&node_, info, queues, dead));
    }
    MakeGroups();
}

Instance::~Instance()
{
    if (main_.joinable()) {
        Stop();
        {
            const std::lock_guard<std::mutex> guard(lock_);
            is_closing_ = true;
            changed_.notify_all();
        }
        main_.join();
    }
    if (bus_ != nullptr) {
        ForgetBus(bus_);
        outputs_->Drop();
        processors_.clear();
        bus_->Close();
    }
}

std::string Instance::LogName() const
{
    return node_.name + "#" + std::to_string(node_.instance);
}

void Instance::MakeGroups()
{
    std::vector<Processor *> plain;
    std::vector<Group> streams;
    for (const auto &processor : processors_) {
        if (processor->info().is_stream) {
            streams.push_back({processor.get()});
        } else {
            plain.push_back(processor.get());
        }
    }
    const size_t wanted = config_.threads == 0 ? plain.size() : std::min<size_t>(config_.threads, plain.size());
    groups_.resize(wanted);
    for (size_t i = 0; i < plain.size(); i++) {
        groups_[i % wanted].push_back(plain[i]);
    }
    groups_.insert(groups_.end(), streams.begin(), streams.end());
}

void Instance::Open()
{
    SetLogName(LogName());
    main_ = std::thread(&Instance::Main, this);
}

void Instance::Main()
{
    (void)pthread_setname_np(pthread_self(), "udf-main");
    const CrashStack stack(LogName());
    SetThreadBus(bus_);
    Live();
    std::unique_lock<std::mutex> guard(lock_);
    state_ = failure_.is_set ? DFLOW_UDF_FAILED : DFLOW_UDF_FINISHED;
    changed_.notify_all();
    changed_.wait(guard, [this] { return is_closing_; });
    guard.unlock();
    functions_->Release(Callees());
    SetThreadBus(nullptr);
}

// Everything between the beginning and the end of the instance.
void Instance::Live()
{
    if (Prepare()) {
        SetState(DFLOW_UDF_READY);
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [this] { return is_started_ || bus_->is_stopping(); });
        guard.unlock();
        if (!bus_->is_stopping()) {
            SetState(DFLOW_UDF_RUNNING);
            working_ = groups_.size() - 1;
            for (size_t i = 1; i < groups_.size(); i++) {
                threads_.emplace_back(&Instance::SideWork, this, i);
            }
            GuardedWork(groups_[0]);
            while (!WaitForOthers()) {
                (void)Park({}, true);
            }
            for (std::thread &thread : threads_) {
                thread.join();
            }
        }
    }
}

bool Instance::Prepare()
{
    std::string fault = config_.library.empty() ? "" : LoadLibrary(config_.library);
    int32_t code = DFLOW_UDF_E_LIBRARY;
    for (size_t i = 0; i < processors_.size() && fault.empty(); i++) {
        code = DFLOW_UDF_E_FUNCTION;
        (void)processors_[i]->Create(functions_.get(), &fault);
    }
    if (!fault.empty()) {
        Fail(Failure{true, false, code, 0, "", fault});
        return false;
    }
    return InitAll();
}

bool Instance::InitAll()
{
    for (;;) {
        bool is_again = false;
        for (const auto &processor : processors_) {
            if (processor->machine().state() != State::kInitFlowFunc) {
                continue;
            }
            Failure failure;
            if (!processor->Init(functions_.get(), &failure)) {
                Fail(failure);
                return false;
            }
            is_again = is_again || processor->machine().state() == State::kInitFlowFunc;
        }
        std::unique_lock<std::mutex> guard(lock_);
        if (!is_again || changed_.wait_for(guard, kInitPause, [this] { return bus_->is_stopping(); })) {
            return !is_again;
        }
    }
}

void Instance::SideWork(size_t group)
{
    (void)pthread_setname_np(pthread_self(), "udf-work");
    const CrashStack stack(LogName());
    SetThreadBus(bus_);
    GuardedWork(groups_[group]);
    SetThreadBus(nullptr);
    const std::lock_guard<std::mutex> guard(lock_);
    working_--;
    changed_.notify_all();
}

// What the runtime itself throws, for want of memory, ends the instance.
void Instance::GuardedWork(const Group &group)
{
    const Outcome outcome = Guarded([&] {
        Work(group);
        return 0;
    });
    if (outcome.is_exception()) {
        Fail(Failure{true, false, DFLOW_UDF_E_SYSTEM, 0, outcome.error_type, outcome.message});
    }
}

void Instance::Work(const Group &group)
{
    const bool is_first = &group == &groups_[0];
    const GateVisit visit(bus_->gate());
    while (!bus_->is_stopping()) {
        bus_->gate()->Pass();
        bool is_busy = false;
        bool is_done = true;
        for (Processor *const processor : group) {
            if (processor->is_done()) {
                continue;
            }
            processor->Round();
            if (processor->machine().state() == State::kProcError) {
                return Fail(processor->failure());
            }
            if (processor->is_cut_off()) {
                Log(Level::kInfo, "an output queue was closed; leaving");
                return Stop();
            }
            is_busy = is_busy || processor->machine().then() == Then::kAgain;
            is_done = is_done && processor->is_done();
        }
        if (is_done) {
            return;
        }
        if (!is_busy && !Park(group, is_first)) {
            Sleep(group);
        }
    }
}

// Until something a processor of the group waits for has moved, or a slice has passed.
void Instance::Sleep(const Group &group)
{
    std::vector<uint32_t> readable;
    std::vector<uint32_t> writable;
    int64_t deadline = -1;
    for (Processor *const processor : group) {
        if (!processor->is_done()) {
            processor->AppendWaits(&readable, &writable, &deadline);
        }
    }
    const GateRest rest(bus_->gate());
    const int64_t left = deadline < 0 ? kSlice : std::max<int64_t>(0, std::min(kSlice, deadline - Now()));
    if (readable.empty() && writable.empty()) {
        std::this_thread::sleep_for(kIdlePause);
    } else if (left > 0 && !(group.size() == 1 && writable.empty() && group[0]->WaitForOne(left))) {
        bus_->Wait(readable.data(), static_cast<uint32_t>(readable.size()), writable.data(),
                   static_cast<uint32_t>(writable.size()), left);
    }
}

// While the instance is suspended: wait for the others, or for the end of it. False if it is not, or not yet here.
bool Instance::Park(const Group &group, bool is_first)
{
    const auto is_here = [](Processor *processor) {
        return processor->is_done() || processor->machine().state() == State::kSuspend;
    };
    if (!node_.is_suspended.load() || !std::all_of(group.begin(), group.end(), is_here)) {
        return false;
    }
    std::unique_lock<std::mutex> guard(lock_);
    if (!is_first) {
        parked_++;
        changed_.notify_all();
        changed_.wait(guard, [this] { return !node_.is_suspended.load() || bus_->is_stopping(); });
        parked_--;
        changed_.notify_all();
        return true;
    }
    changed_.wait(guard, [this] { return parked_ == working_ || bus_->is_stopping(); });
    guard.unlock();
    if (!bus_->is_stopping()) {
        SwapFunctions();
    }
    return true;
}

// All workers stand still: reset the functions or make them anew, then go on.
void Instance::SwapFunctions()
{
    const bool is_kept = functions_->Reset(Callees());
    if (!is_kept) {
        functions_->Release(Callees());
    }
    std::unique_lock<std::mutex> guard(lock_);
    state_ = DFLOW_UDF_SUSPENDED;
    changed_.notify_all();
    changed_.wait(guard, [this] { return is_recovering_ || bus_->is_stopping(); });
    is_recovering_ = false;
    guard.unlock();
    if (bus_->is_stopping()) {
        return;
    }
    for (const auto &processor : processors_) {
        if (processor->is_done()) {
            continue;
        }
        std::string fault;
        processor->Recover(is_kept);
        if (!is_kept && !processor->Create(functions_.get(), &fault)) {
            return Fail(Failure{true, false, DFLOW_UDF_E_FUNCTION, 0, "", fault});
        }
    }
    if (!is_kept && !InitAll()) {
        return;
    }
    guard.lock();
    node_.is_suspended.store(false);
    bus_->gate()->LetAllPass(false);
    state_ = DFLOW_UDF_RUNNING;
    changed_.notify_all();
    changed_.wait(guard, [this] { return parked_ == 0; }); // so that the next suspension counts from the start
}

// True when the other workers have ended; false when they are suspended.
bool Instance::WaitForOthers()
{
    std::unique_lock<std::mutex> guard(lock_);
    while (working_ != 0 && !(node_.is_suspended.load() && !bus_->is_stopping())) {
        (void)changed_.wait_for(guard, Slice());
    }
    return working_ == 0;
}

void Instance::Fail(const Failure &failure)
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        if (!failure_.is_set) {
            failure_ = failure;
            failure_.is_set = true;
        }
    }
    Stop();
}

void Instance::SetState(int state)
{
    const std::lock_guard<std::mutex> guard(lock_);
    state_ = state;
    changed_.notify_all();
}

std::vector<Callee *> Instance::Callees()
{
    std::vector<Callee *> callees;
    for (const auto &processor : processors_) {
        callees.push_back(processor->callee());
    }
    return callees;
}
}  // namespace dflow

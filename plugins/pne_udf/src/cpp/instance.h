// One node instance: its functions, its threads, and how far it is.
#ifndef DFLOW_UDF_INSTANCE_H
#define DFLOW_UDF_INSTANCE_H

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "config.h"
#include "processor.h"

namespace dflow {
// The first thread loads, makes, initialises and destroys the functions, one instance at a time in a process, and is
// the first of the workers. Each function with queues has a worker of its own; the others share as many as `threads`
// says. A worker with nothing to do sleeps until a queue it waits for moves, at most for a slice: so each processor
// gets a turn at least ten times a second, which is all the watchdog there is.
class Instance {
public:
    Instance(const dflow_udf_config &config, std::string *faults);
    ~Instance();

    Instance(const Instance &) = delete;
    Instance &operator=(const Instance &) = delete;

    int state();
    int Wait(int state, int64_t wait_ns);
    bool Start();

    // Write a line for every call from now on; false with errno. Before `Start`.
    bool Trace(const std::string &path, const std::string &head);

    void Stop();
    bool Suspend();
    bool Recover();

    // Let no further call begin, or let them; whether none is under way.
    void Hold(bool is_held);
    bool is_quiet();

    // Counters of a function, or of all with -1; false if there is no such function.
    bool Stats(int32_t func, dflow_udf_stats *out);
    bool TakeRaised(ExceptionNote *note);
    void Notify(const std::string &scope, const ExceptionNote &note);
    Failure failure();

    // Begin; once, after construction.
    void Open();

private:
    using Group = std::vector<Processor *>;

    void Main();
    void Live();
    void GuardedWork(const Group &group);
    bool Prepare();
    bool InitAll();
    void MakeGroups();
    void Work(const Group &group);
    void SideWork(size_t group);
    void Sleep(const Group &group);
    bool Park(const Group &group, bool is_first);
    void SwapFunctions();
    bool WaitForOthers();
    void Fail(const Failure &failure);
    void SetState(int state);
    std::vector<Callee *> Callees();
    std::string LogName() const;

    Config config_;
    Node node_;
    Bus *bus_ = nullptr; // never freed: see Bus::Close
    std::unique_ptr<Outputs> outputs_;
    std::unique_ptr<Functions> functions_;
    std::vector<std::unique_ptr<Processor>> processors_;
    std::vector<Group> groups_;
    std::vector<std::thread> threads_;
    std::thread main_;

    std::mutex lock_;
    std::condition_variable changed_;
    int state_ = DFLOW_UDF_LOADING;
    bool is_started_ = false;
    bool is_closing_ = false;
    bool is_recovering_ = false;
    bool has_raised_ = false; // since the last look
    size_t parked_ = 0;
    size_t working_ = 0; // threads besides the first one
    Failure failure_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_INSTANCE_H

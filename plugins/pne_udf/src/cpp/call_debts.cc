// The half of a call that keeps account: what was taken from queues, or kept, and has no answer yet.
#include "call.h"

#include <utility>

namespace dflow {
Fate Call::Take(size_t port, const MessagePtr &taken, const Cancelled &cancelled)
{
    const Message &msg = *taken;
    const std::lock_guard<std::mutex> guard(lock_);
    if (msg.Is(kEnd)) {
        const std::pair<PartKey, bool> key{msg.key(), true};
        if (!passed_.Has(key)) {
            passed_.Add(key);
            (void)PassOnLocked(msg);
        }
        return Fate::kDrop;
    }
    const bool is_lost = msg.Is(kError) || (msg.Is(kSkip) && info_->inputs.size() > 1 && cancelled.HasAll(msg));
    const Fate fate = halves_.Take(port, msg, is_lost ? Comes::kLost : msg.Is(kSkip) ? Comes::kSkip : Comes::kData);
    if (fate == Fate::kGive) {
        (void)Owe(taken);
    } else if (fate == Fate::kEnd) {
        (void)PassOnLocked(msg);
    } else if (fate == Fate::kTell) {
        return EndPart(msg.key(), msg.head(), msg.aux()) ? fate : Fate::kDrop;
    }
    return fate;
}

bool Call::Lose(size_t port, const Cancelled &cancelled)
{
    if (info_->inputs.size() == 1 || !cancelled.is_any()) {
        return false;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    bool is_told = false;
    for (const PartKey &key : halves_.Lose(port, cancelled)) {
        Head head{};
        head.trans_id = key.first;
        head.data_label = key.second;
        head.data_flag = kSkip;
        is_told = EndPart(key, head, View()) || is_told;
    }
    return is_told;
}

// End what is owed for a message of which another part is lost: with the error of that, or as skipped. What the function
// still sends for it goes nowhere. False if everything had its answer.
bool Call::EndPart(const PartKey &key, const Head &head, View aux)
{
    bool is_owed = true;
    for (size_t at = 0; at < outputs_.size(); at++) {
        is_owed = is_owed && info_->is_shared[at]; // who may send there too keeps no account of it
    }
    const bool is_error = (head.data_flag & kError) != 0;
    for (size_t at = 0; at < outputs_.size(); at++) {
        Debt debt;
        if (outputs_[at].ledger.TakePart(key, &debt)) {
            is_owed = true;
            const View members{debt.members.data(), debt.members.size()};
            (void)EmitEnding(at, is_error ? head : Flagged(debt.head, kSkip), is_error ? aux : members);
        } else if (is_error && info_->is_shared[at]) {
            (void)EmitEnding(at, head, aux);
        }
    }
    if (is_owed) {
        let_go_.Add(key.first);
        has_lost_ = true;
    }
    return is_owed;
}

// A message was given to a function outside of a call.
int Call::Owe(const MessagePtr &taken)
{
    const Message &msg = *taken;
    let_go_.Remove(msg.head().trans_id);
    int code = kOk;
    for (size_t at = 0; at < outputs_.size(); at++) {
        if (!info_->is_shared[at]) {
            outputs_[at].ledger.Owe(msg.head(), msg.aux(), {taken});
            // Without a transaction of their own messages go by their count, which may lag far behind.
            code = First(code, outputs_[at].is_explicit ? PayReleased(at) : kOk);
            has_debts_.store(true, std::memory_order_relaxed);
            code = First(code, PayOldest(at, false));
        }
    }
    return code;
}

int Call::PayOldest(size_t at, bool all)
{
    Debt debt;
    int code = kOk;
    while (outputs_[at].ledger.TakeOldest(all, &debt)) {
        const View members{debt.members.data(), debt.members.size()};
        code = First(code, EmitEnding(at, Flagged(debt.head, kSkip), members));
    }
    return code;
}

size_t Call::FailDebts(const ErrorInfo &error, int32_t ret_code)
{
    const std::lock_guard<std::mutex> guard(lock_);
    size_t count = 0;
    for (size_t at = 0; at < outputs_.size(); at++) {
        Debt debt;
        while (outputs_[at].ledger.TakeOldest(true, &debt)) {
            const Bytes aux = AuxWithError(View{debt.members.data(), debt.members.size()}, error);
            Head head = Flagged(debt.head, kError);
            head.ret_code = ret_code;
            (void)EmitEnding(at, head, View{aux.data(), aux.size()});
            count++;
        }
    }
    return count;
}

int Call::PayReleased(size_t at)
{
    Debt debt;
    int code = kOk;
    const auto awaits = [this](const PartKey &key) { return halves_.Awaits(key); };
    while (outputs_[at].ledger.TakeReleased(awaits, &debt)) {
        const View members{debt.members.data(), debt.members.size()};
        code = First(code, EmitEnding(at, Flagged(debt.head, kSkip), members));
    }
    return code;
}

int Call::Sweep()
{
    if (!has_debts_.load(std::memory_order_relaxed)) {
        return kOk;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    int code = kOk;
    bool has_debts = false;
    for (size_t at = 0; at < outputs_.size(); at++) {
        const bool may_lag = info_->is_stream && !outputs_[at].is_explicit;
        code = First(code, outputs_[at].ledger.is_empty() || may_lag ? kOk : PayReleased(at));
        has_debts = has_debts || !outputs_[at].ledger.is_empty();
    }
    has_debts_.store(has_debts, std::memory_order_relaxed);
    return code;
}

int Call::Settle()
{
    const std::lock_guard<std::mutex> guard(lock_);
    int code = kOk;
    for (size_t at = 0; at < outputs_.size(); at++) {
        code = First(code, PayOldest(at, true));
    }
    return code;
}
}  // namespace dflow

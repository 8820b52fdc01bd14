// What a function still owes: transactions it took and for which an output has neither data nor an ending yet.
//
// Functions that take messages themselves, or answer from threads of their own, send when no call for that transaction
// is going on. The ledger then knows the token and the label to send under, and what to end at the close.
#ifndef DFLOW_UDF_LEDGER_H
#define DFLOW_UDF_LEDGER_H

#include <deque>
#include <functional>
#include <map>

#include "aligner.h"

namespace dflow {
struct Debt {
    Head head;
    Bytes members;
    std::vector<std::weak_ptr<Message>> kept; // messages to answer with or from; gone when the function let go of them
};

class Ledger {
public:
    // Note a debt; a second one for the same part (another input of a join) is the same, and has its messages too.
    void Owe(const Head &head, View members, std::vector<std::weak_ptr<Message>> kept);

    // Transaction of the oldest debt, 0 if there is none.
    uint64_t Oldest() const;

    bool Owes(const PartKey &key) const
    {
        return debts_.count(key) != 0;
    }

    // The oldest debt for a transaction; false if there is none.
    bool Take(uint64_t trans_id, Debt *debt);

    // The debt for a part; false if there is none.
    bool TakePart(const PartKey &key, Debt *debt);

    // Debts of a transaction are forgotten: it has failed.
    void Forget(uint64_t trans_id);

    // The oldest debt beyond the limit, or of all; false if there is none.
    bool TakeOldest(bool all, Debt *debt);

    // A debt whose messages the function has let go of; false if there is none. `awaits`: whether there may be more of one.
    bool TakeReleased(const std::function<bool(const PartKey &)> &awaits, Debt *debt);

    bool is_empty() const
    {
        return debts_.empty();
    }

private:
    void Trim();

    static constexpr size_t kLimit = 65536;

    std::map<PartKey, Debt> debts_;
    std::deque<PartKey> order_; // behind the first, may name some that are gone
    Recent<PartKey> known_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_LEDGER_H

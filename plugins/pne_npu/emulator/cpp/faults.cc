// Grammar: rules separated by ';' or newlines, each `WHERE[#N[+]] ACTION[=VALUE]`.
//   WHERE   a function (aclrtMalloc) or a task (task:execute); N its N-th use from 1, `+` and all later; without it all
//   ACTION  code=NUMBER | slow=MILLISECONDS | hang | lost
#include "faults.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl_error_codes.h"
#include "call.h"
#include "device.h"
#include "report.h"
#include "settings.h"

namespace emu::faults {
namespace {

enum class Action { code, slow, hang, lost };

struct Rule {
    std::string where;
    unsigned long first = 0;
    bool later = true;
    Action action = Action::code;
    int value = 0;
    unsigned long seen = 0;
};

bool parse(const std::string &text, Rule &rule) {
    std::istringstream words(text);
    std::string what;
    if (!(words >> rule.where >> what)) return false;
    const std::size_t at = rule.where.find('#');
    if (at != std::string::npos) {
        std::string count = rule.where.substr(at + 1);
        rule.later = !count.empty() && count.back() == '+';
        rule.first = std::strtoul(count.c_str(), nullptr, 10);
        rule.where.resize(at);
        if (rule.first == 0) return false;
    }
    const std::size_t equals = what.find('=');
    const std::string name = what.substr(0, equals);
    if (equals != std::string::npos) rule.value = std::atoi(what.c_str() + equals + 1);
    if (name == "code") rule.action = Action::code;
    else if (name == "slow") rule.action = Action::slow;
    else if (name == "hang") rule.action = Action::hang;
    else if (name == "lost") rule.action = Action::lost;
    else return false;
    return name == "hang" || name == "lost" || rule.value > 0;
}

std::vector<Rule> read(std::string text) {
    if (!text.empty() && text[0] == '@') {
        std::ifstream file(text.substr(1));
        std::ostringstream all;
        all << file.rdbuf();
        if (!file) note("faults", "cannot read the fault script " + text.substr(1));
        text = all.str();
    }
    for (char &letter : text) {
        if (letter == ';') letter = '\n';
    }
    std::vector<Rule> rules;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        line.resize(std::min(line.size(), line.find('#') == 0 ? 0 : line.size()));
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        Rule rule;
        if (parse(line, rule)) rules.push_back(rule);
        else note("faults", "this rule of the fault script is not understood: " + line);
    }
    return rules;
}

std::mutex mutex;

struct Script {
    std::vector<Rule> rules = read(settings().faults);
    std::atomic<bool> armed{!rules.empty()};
};

Script &script() {
    static Script &made = *new Script;
    return made;
}

// The rule that applies to this use, if any.
bool match(const std::string &where, Rule &found) {
    const std::lock_guard<std::mutex> lock(mutex);
    bool any = false;
    for (Rule &rule : script().rules) {
        if (rule.where != where) continue;
        ++rule.seen;
        const bool now = rule.first == 0 || rule.seen == rule.first || (rule.later && rule.seen > rule.first);
        if (now && !any) {
            found = rule;
            any = true;
        }
    }
    return any;
}

void rest(int milliseconds, bool (*stopped)(void *), void *context) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < end && !(stopped != nullptr && stopped(context))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace

bool armed() { return script().armed; }

void replace(const char *text) {
    std::vector<Rule> rules = read(text == nullptr ? "" : text);
    const std::lock_guard<std::mutex> lock(mutex);
    script().rules = std::move(rules);
    script().armed = !script().rules.empty();
}

int at_call(const char *function) {
    Rule rule;
    if (!match(function, rule)) return 0;
    switch (rule.action) {
        case Action::code: return fail(rule.value, "EE9999", "the fault script makes this call fail");
        case Action::slow: rest(rule.value, nullptr, nullptr); return 0;
        case Action::hang:
            rest(settings().watchdog_ms, nullptr, nullptr);
            return fail(ACL_ERROR_RT_TASK_TIMEOUT, "EE9999", "the fault script makes this call hang");
        case Action::lost: lose_current_device(); break;
    }
    return fail(ACL_ERROR_RT_LOST_HEARTBEAT, "EE9999", "the fault script takes the device away");
}

int at_task(const char *task, int device, bool (*stopped)(void *), void *context) {
    Rule rule;
    if (!match(std::string("task:") + task, rule)) return 0;
    switch (rule.action) {
        case Action::code: return rule.value;
        case Action::slow: rest(rule.value, stopped, context); return 0;
        case Action::hang: rest(settings().watchdog_ms, stopped, context); return ACL_ERROR_RT_AICORE_TIMEOUT;
        case Action::lost: lose_device(device); break;
    }
    return ACL_ERROR_RT_LOST_HEARTBEAT;
}

}  // namespace emu::faults

// Prints what the machine does for every state and event, one a line, found by driving it there.
#include <cstdio>
#include <vector>

#include "machine.h"

using dflow::Event;
using dflow::Machine;
using dflow::State;
using dflow::Then;

namespace {
// The shortest list of events that leads to a state, by breadth first search from the start.
std::vector<Event> PathTo(State wanted)
{
    std::vector<std::vector<Event>> paths{{}};
    std::vector<bool> seen(dflow::kStates, false);
    for (size_t next = 0; next < paths.size(); next++) {
        Machine machine;
        for (const Event event : paths[next]) {
            machine.On(event);
        }
        if (machine.state() == wanted) {
            return paths[next];
        }
        const auto state = static_cast<size_t>(machine.state());
        if (seen[state]) {
            continue;
        }
        seen[state] = true;
        for (size_t event = 0; event < dflow::kEvents; event++) {
            std::vector<Event> longer = paths[next];
            longer.push_back(static_cast<Event>(event));
            paths.push_back(longer);
        }
    }
    return {};
}
}  // namespace

int main()
{
    for (size_t state = 0; state < dflow::kStates; state++) {
        const std::vector<Event> path = PathTo(static_cast<State>(state));
        for (size_t event = 0; event < dflow::kEvents; event++) {
            Machine machine;
            for (const Event step : path) {
                machine.On(step);
            }
            if (machine.state() != static_cast<State>(state)) {
                printf("%s unreachable\n", Name(static_cast<State>(state)));
                return 1;
            }
            const Then before = machine.then();
            const Then then = machine.On(static_cast<Event>(event));
            if (then == Then::kNever) { // and nothing has changed
                if (machine.state() != static_cast<State>(state) || machine.then() != before) {
                    return 2;
                }
                continue;
            }
            printf("%s %s %s %s\n", Name(static_cast<State>(state)), Name(static_cast<Event>(event)),
                   Name(machine.state()), Name(then));
        }
    }
    return 0;
}

// What programs describe queues and routes with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "table.h"

namespace emu {

struct QueueAttr {
    std::string name;  // "" for an automatic one
    std::uint32_t depth = 8;
};

struct RouteEntry {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::int32_t status = 0;
};

struct RouteList {
    std::vector<RouteEntry> entries;
};

struct RouteQuery {
    int mode = -1;
    bool has_from = false;
    bool has_to = false;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
};

Table<QueueAttr> &queue_attrs();

}  // namespace emu

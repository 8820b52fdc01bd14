// Checks that a text is JSON; nothing is kept of it.
#pragma once

#include <string>

namespace emu {

// Whether a text is one JSON value whose objects and lists nest at most `depth` deep.
bool is_json(const std::string &text, int depth);

}  // namespace emu

// Whether the library is initialised.
#pragma once

namespace emu {

bool is_initialised();

}  // namespace emu

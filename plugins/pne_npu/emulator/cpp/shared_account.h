// What other processes have taken of the devices' memory; they share a file, if the settings name one.
//
// A process that dies gives its share back: whoever looks next sees that its number is nobody's.
#pragma once

#include <cstddef>

namespace emu::shared_account {

// Keeps others from charging for as long as it lives; nothing where no file is shared.
class Turn {
public:
    Turn();
    ~Turn();
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;
};

// Bytes that living processes other than this one have taken of a device.
std::size_t others(int device);
// Tell the others what this process has taken.
void tell(int device, std::size_t used);

}  // namespace emu::shared_account

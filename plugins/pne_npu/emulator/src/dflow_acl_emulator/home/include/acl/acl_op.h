/* Single operators: declared by vendors' headers, answered by the emulator with a refusal; see the scope page. */
#ifndef ACL_OP_H
#define ACL_OP_H

#include "acl_base.h"

#endif

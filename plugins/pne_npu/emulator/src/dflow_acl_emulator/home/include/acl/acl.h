/* Everything of the Ascend Computing Language that this library offers. */
#ifndef ACL_H
#define ACL_H

#include "acl_base.h"
#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"

#endif

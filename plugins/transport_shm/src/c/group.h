/* Members as `group.c` and `reclaim.c` share them. */
#ifndef DSHM_GROUP_H
#define DSHM_GROUP_H
#include "layout.h"

uint64_t process_start(uint32_t pid, int *dead);
void member_clear(struct dshm *h, uint32_t member);
#endif

/* All places where a test can stop or kill the process that gets there: `dshm_fault_at`. Each lies between two steps
 * that have to look like one, whoever dies in between. */
#ifndef DSHM_FAULT_H
#define DSHM_FAULT_H

enum dshm_stop {
    DSHM_STOP_NONE = 0,
    /* put: the end of the producers is locked */
    DSHM_STOP_PUT_LOCKED,    /* nothing done yet */
    DSHM_STOP_PUT_INTENT,    /* the move is written down */
    DSHM_STOP_PUT_SLOT,      /* slot written, queue not yet longer */
    DSHM_STOP_PUT_TAIL,      /* queue longer, hold not yet given up */
    DSHM_STOP_PUT_HOLD,      /* hold given up, move still written down */
    DSHM_STOP_PUT_DONE,      /* all done but the lock */
    DSHM_STOP_PUT_BELL,      /* lock given back, nobody woken yet */
    /* get: the end of the consumers is locked */
    DSHM_STOP_GET_LOCKED,
    DSHM_STOP_GET_INTENT,
    DSHM_STOP_GET_HEAD,      /* queue shorter, hold not yet taken */
    DSHM_STOP_GET_HOLD,
    DSHM_STOP_GET_DONE,
    DSHM_STOP_GET_BELL,
    /* a full queue gives way */
    DSHM_STOP_DROP_HEAD,     /* oldest message taken out, not yet held by who displaced it */
    DSHM_STOP_DROP_COUNTED,  /* held and counted, move still written down */
    /* references: only the member itself is locked, against its own threads */
    DSHM_STOP_REF_INTENT,    /* the change is written down */
    DSHM_STOP_REF_HOLD,      /* hold given up, reference not yet */
    DSHM_STOP_REF_WORD,      /* reference changed; a hold that grows has not yet */
    DSHM_STOP_REF_HOME,      /* last reference dropped, its maker told, change still written down */
    /* memory */
    DSHM_STOP_ALLOC_CACHED,  /* a block of the magazine taken and held, not yet dressed */
    DSHM_STOP_ALLOC_RETURNED, /* marks of returned blocks taken, blocks not yet in the magazine */
    DSHM_STOP_ALLOC_TAKEN,   /* the group is locked: chunk off its list, no block has it yet */
    DSHM_STOP_ALLOC_GROWN,   /* a block has it, nobody holds the block */
    DSHM_STOP_ALLOC_HELD,    /* held, pages not yet there */
    DSHM_STOP_FREE,          /* block free again, chunk not yet on its list */
    /* waiting */
    DSHM_STOP_WAIT_ENROLLED, /* entered as waiting, not yet asleep */
    DSHM_STOP_WAIT_WOKEN,    /* woken, not yet looked */
    DSHM_STOP_CLOSE_MARKED,  /* puts are refused, consumers not yet told */
    /* the group is locked */
    DSHM_STOP_RECLAIM_HELD,  /* a lost message is held by who reclaims, and still by the dead */
    DSHM_STOP_COUNT,
};

enum dshm_fault_how { DSHM_FAULT_STOP = 0, DSHM_FAULT_KILL = 1 };
#endif

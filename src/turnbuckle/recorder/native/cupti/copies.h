/* copies.h - a slower link under CUPTI: copies that block are made to return later.
 *
 * What a copy took is told by CUPTI only later, so that it is the call's own time that counts: where the call first waits for other work,
 * too little is added.  A copy that does not block goes on at its own speed: to hold up its stream the recorder would have to put
 * work of its own into it, which a program can see (stream captures, queries).  Those are counted. */
#ifndef TURNBUCKLE_COPIES_H
#define TURNBUCKLE_COPIES_H

#include <cuda.h>
#include <cupti.h>

/* Asks for callbacks of the copies, where link.h limits them. */
CUptiResult copies_start(CUpti_SubscriberHandle subscriber);

/* A call begins or ends. */
void copies_call(int driver, CUpti_CallbackId id, const CUpti_CallbackData *call);

#endif

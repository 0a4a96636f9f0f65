/* records.h - CUPTI's activity records as lines of the output: the kinds to record, and the buffers that CUPTI fills. */
#ifndef TURNBUCKLE_RECORDS_H
#define TURNBUCKLE_RECORDS_H

#include <cuda.h>
#include <cupti.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of records by the words of the setting TB_KINDS. */
#define RECORDS_DEFAULT "api,driver,kernel,memcpy,memset,sync,event,memory,overhead,stream,device,nvtx"

/* Returns the first word of the comma-separated `list` that is no kind of records (in a static buffer), or NULL. */
const char *records_unknown(const char *list);

/* Returns whether `word` is in the comma-separated `list`. */
int records_listed(const char *list, const char *word);

/* Registers buffers of at most `most_bytes` in all; `kinds` is kept, not copied. */
CUptiResult records_start(const char *kinds, size_t most_bytes);

/* Asks CUPTI for the kinds, or for none; writes the refused ones as a fact. */
void records_switch(int on);

/* Unified memory can be asked for only once cuInit has finished. */
void records_unified_memory(void);

/* Writes the facts at the end: records dropped, unknown, without time; most buffers in use; time spent in writing. */
void records_tell(void);

#endif

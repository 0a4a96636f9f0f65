/* output.h - the text file that a recorder writes, "turnbuckle-trace 1" (docs/record.md has the format).
 *
 * Lines that begin with '#' are facts, the first other line names the columns, every other line is one record of
 * ROW_NUMBERS numbers after its kind; a column without a value is empty.  Only whole lines are handed to the system, so what
 * was flushed is readable however the program ends.  One file a process.
 *
 * Everything but output_open, output_clock, output_flush and output_close is called between output_begin and output_end, which lock.
 */
#ifndef TURNBUCKLE_OUTPUT_H
#define TURNBUCKLE_OUTPUT_H

#include <stdint.h>

#define NONE INT64_MIN /* a column without a value */

/* One record.  `kind` says what it is and which columns it has. */
struct row {
    char kind;
    int64_t start, end, corr, corr2, tid, dev, ctx, stream, name, bytes, what, src, dst, blocks, threads, regs, smem, event, evsync,
        graph, node, queued, submitted, ret, address, domain;
};
#define ROW_NUMBERS 26

/* Opens the file of this process: `pattern` with %p in its last part as the process id; where that file is there already, a number is put behind its
 * name.  Writes the first facts: format, `recorder` (one word), process id, base name of the program.  Returns 0 or an errno. */
int output_open(const char *pattern, const char *recorder);

/* Creates a file of this process, which nobody else may read: `pattern` with %p in its last part as the process id and, unless `again` is 0,
 * with that number behind it.  Returns a descriptor, or minus an errno: EEXIST where a file or a link is there already. */
int output_create(const char *pattern, int again);

/* The number that a launcher gave this process; 0 where it gave none. */
int64_t output_rank(void);

/* Whether records are still taken: a file is open and the last write succeeded. */
int output_on(void);

/* Around any number of the next four. */
void output_begin(void);
void output_end(void);

/* One fact: a line with '#' in front.  Bytes that would end the line become blanks. */
void output_fact(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The fact "#clock": how CLOCK_MONOTONIC stands to UTC.  Not between output_begin and output_end. */
void output_clock(void);

/* The line that names the columns; once, before the first record. */
void output_columns(void);

/* Number of a text; told once as a fact "#name NUMBER TEXT". */
int64_t output_name(const char *text);

/* The same; what is told is what `show` makes of the text when it first occurs, if that is not NULL (freed here). */
int64_t output_name_shown(const char *text, char *(*show)(const char *text));

/* A record with no column filled in yet; then its line. */
void row_begin(struct row *row, char kind);
void output_row(const struct row *row);

/* Hands every whole line to the system. */
void output_flush(void);

/* Writes the last facts (#rows, #lost and #end) and closes.  Returns 0 or the errno of the first write that failed. */
int output_close(void);

/* Records written so far. */
uint64_t output_rows(void);

/* One line on stderr, with "turnbuckle: " in front. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

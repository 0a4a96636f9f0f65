/* output.c - see output.h. */
#define _GNU_SOURCE
#include "output.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, LONGEST_FACT = 64 << 10, LONGEST_PATH = 4096, MOST_FILES = 1000 };
enum { MOST_NAMES = 1 << 20, MOST_NAME_BYTES = 64 << 20 };

_Static_assert(sizeof(struct row) == 8 + 8 * ROW_NUMBERS, "a row is its kind and ROW_NUMBERS numbers");

static const char columns[] = "kind,start,end,corr,corr2,tid,dev,ctx,stream,name,bytes,what,src,dst,blocks,threads,regs,smem,event,evsync,"
                              "graph,node,queued,submitted,ret,address,domain\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static _Atomic int file = -1, failed;
static char *buffer;
static size_t filled;
static uint64_t rows, lost;
static off_t unwritten_at; /* where the file has the fact that is written over when it cannot grow */

void say(const char *format, ...)
{
    char line[1024];
    va_list words;
    va_start(words, format);
    int length = vsnprintf(line, sizeof line - 1, format, words);
    va_end(words);
    if (length < 0) return;
    if ((size_t)length > sizeof line - 2) length = (int)sizeof line - 2;
    line[length] = 0;
    /* one write, so that lines of several processes do not mix */
    dprintf(STDERR_FILENO, "turnbuckle: %s\n", line);
}

/* ---- bytes ---- */

/* A file at the limit of its size (ulimit -f) would end the program by a signal that the program did not cause. */
static ssize_t write_quietly(const char *from, size_t length)
{
    const struct timespec now = { 0, 0 };
    sigset_t too_large, before, waiting;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    int others = sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ);
    ssize_t wrote = write(file, from, length);
    int error = errno;
    if (wrote < 0 && error == EFBIG && !others) sigtimedwait(&too_large, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return wrote;
}

static void write_out(void)
{
    size_t done = 0;
    while (file >= 0 && !failed && done < filled) {
        ssize_t wrote = write_quietly(buffer + done, filled - done);
        if (wrote > 0) done += (size_t)wrote;
        else if (wrote == 0 || errno != EINTR) failed = wrote == 0 ? EIO : errno;
    }
    if (failed && done < filled) {
        say("the recording ends here: %s; the program goes on", strerror(failed));
        while (done > 0 && buffer[done - 1] != '\n') done--;
        for (size_t at = done; at < filled; at += (size_t)((char *)memchr(buffer + at, '\n', filled - at) - (buffer + at)) + 1)
            lost += buffer[at] != '#';
    }
    filled = 0;
}

/* Tells in the file how many records are missing, in a place that was kept: there is no room for more. */
static void tell_unwritten(void)
{
    char digits[32];
    int length = sprintf(digits, "%018" PRIu64, lost % 1000000000000000000u);
    if (unwritten_at > 0 && pwrite(file, digits, (size_t)length, unwritten_at) != length) say("%" PRIu64 " records were not written", lost);
}

static void put(const char *text, size_t length)
{
    if (file < 0 || failed || length > BUFFER_BYTES) return;
    if (filled + length > BUFFER_BYTES) write_out();
    memcpy(buffer + filled, text, length);
    filled += length;
}

/* ---- names ---- */

struct name { uint64_t hash; char *text; int64_t number; };
static struct name *names; /* open addressing; a slot without text is free */
static size_t name_slots, name_count, name_bytes;
static int64_t name_next;

static struct name *slot_of(struct name *table, size_t slots, uint64_t hash, const char *text)
{
    size_t at = (size_t)hash & (slots - 1);
    while (table[at].text && (table[at].hash != hash || strcmp(table[at].text, text) != 0)) at = (at + 1) & (slots - 1);
    return &table[at];
}

static int grow_names(void)
{
    size_t more = name_slots ? 2 * name_slots : 1024;
    struct name *table = calloc(more, sizeof *table);
    if (!table) return 0;
    for (size_t i = 0; i < name_slots; i++)
        if (names[i].text) *slot_of(table, more, names[i].hash, names[i].text) = names[i];
    free(names);
    names = table;
    name_slots = more;
    return 1;
}

static void forget_names(void)
{
    for (size_t i = 0; i < name_slots; i++) free(names[i].text);
    free(names);
    names = NULL;
    name_slots = name_count = name_bytes = 0;
}

int64_t output_name(const char *text) { return output_name_shown(text, NULL); }

int64_t output_name_shown(const char *text, char *(*show)(const char *text))
{
    uint64_t hash = 1469598103934665603u;
    struct name *slot = NULL;
    if (!text) return NONE;
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    if (name_slots && (slot = slot_of(names, name_slots, hash, text))->text) return slot->number;
    char *shown = show ? show(text) : NULL;
    output_fact("name %" PRId64 " %s", name_next, shown ? shown : text);
    free(shown);
    /* beyond the bound a text gets a number of its own each time: the file grows, the memory does not */
    if (name_count >= MOST_NAMES || name_bytes > MOST_NAME_BYTES) return name_next++;
    if (2 * (name_count + 1) > name_slots && !grow_names()) return name_next++;
    slot = slot_of(names, name_slots, hash, text);
    if ((slot->text = strdup(text))) {
        slot->hash = hash, slot->number = name_next;
        name_count++, name_bytes += strlen(text);
    }
    return name_next++;
}

/* ---- lines ---- */

void output_fact(const char *format, ...)
{
    static char line[LONGEST_FACT]; /* guarded by the lock; a thread's stack may be small */
    va_list words;
    va_start(words, format);
    int length = vsnprintf(line + 1, sizeof line - 2, format, words);
    va_end(words);
    if (length < 0) return;
    if ((size_t)length > sizeof line - 3) length = (int)sizeof line - 3;
    line[0] = '#';
    for (int i = 1; i <= length; i++)
        if ((unsigned char)line[i] < ' ') line[i] = ' ';
    line[length + 1] = '\n';
    put(line, (size_t)length + 2);
}

void output_clock(void)
{
    int64_t at, width, to_utc = clock_to_utc(&at, &width);
    output_begin();
    output_fact("clock %" PRId64 " 0 %" PRId64 " %" PRId64, at, to_utc, width);
    output_end();
}

void output_columns(void) { put(columns, sizeof columns - 1); }

void row_begin(struct row *row, char kind)
{
    int64_t *number = &row->start;
    for (int i = 0; i < ROW_NUMBERS; i++) number[i] = NONE;
    row->kind = kind;
}

void output_row(const struct row *row)
{
    char line[ROW_NUMBERS * 21 + 3], digits[20], *to = line;
    const int64_t *number = &row->start;
    if (file < 0 || failed) {
        lost++;
        return;
    }
    *to++ = row->kind;
    for (int i = 0; i < ROW_NUMBERS; i++) {
        int count = 0;
        *to++ = ',';
        if (number[i] == NONE) continue;
        uint64_t rest = number[i] < 0 ? 0 - (uint64_t)number[i] : (uint64_t)number[i];
        if (number[i] < 0) *to++ = '-';
        do digits[count++] = (char)('0' + rest % 10);
        while (rest /= 10);
        while (count) *to++ = digits[--count];
    }
    *to++ = '\n';
    put(line, (size_t)(to - line));
    rows++;
}

/* ---- the file ---- */

void output_begin(void) { pthread_mutex_lock(&lock); }
void output_end(void) { pthread_mutex_unlock(&lock); }
int output_on(void) { return file >= 0 && !failed; }
uint64_t output_rows(void) { return rows; }

/* A child of fork shares the parent's file and has a copy of what it had not yet written: it lets go of both. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    if (file >= 0) close(file);
    file = -1;
    filled = 0;
}

static int path_of(char *path, const char *pattern, int again)
{
    size_t length = 0;
    const char *slash = strrchr(pattern, '/');
    for (; *pattern && length + 32 < LONGEST_PATH; pattern++) {
        if ((!slash || pattern > slash) && pattern[0] == '%' && pattern[1] == 'p')
            length += (size_t)sprintf(path + length, "%ld", (long)getpid()), pattern++;
        else path[length++] = *pattern;
    }
    path[length] = 0;
    if (again) sprintf(path + length, ".%d", again);
    return *pattern == 0;
}

int output_create(const char *pattern, int again)
{
    char path[LONGEST_PATH];
    if (!path_of(path, pattern, again)) return -ENAMETOOLONG;
    int made = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return made < 0 ? -errno : made;
}

/* A variable that is a number of at most 9 digits; NULL where it is none. */
static const char *counted(const char *name)
{
    const char *text = getenv(name);
    return text && *text && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 9 ? text : NULL;
}

/* The variable that holds the number a launcher gave this process, and that of how many there are; NULL where it gave none. */
static const char *const *launched(void)
{
    static const char *const names[][2] = { { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" }, { "PMIX_RANK", "" },
                                            { "PMI_RANK", "PMI_SIZE" },                         { "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE" },
                                            { "SLURM_PROCID", "SLURM_NTASKS" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (counted(names[i][0])) return names[i];
    return NULL;
}

int64_t output_rank(void)
{
    const char *const *names = launched();
    return names ? strtoll(counted(names[0]), NULL, 10) : 0;
}

/* The number that a launcher gave this process, if it did; nothing else of the environment is told. */
static void tell_rank(void)
{
    const char *const *names = launched();
    if (!names) return;
    output_fact("rank %s", counted(names[0]));
    if (counted(names[1])) output_fact("ranks %s", counted(names[1]));
}

/* Which start of the system CLOCK_MONOTONIC counts from: a number that the kernel draws at each, and nobody else's.  Recordings with the
 * same one share a clock. */
static void tell_boot(void)
{
    enum { UUID = 36 };
    char id[UUID + 1] = "";
    int random = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (random < 0) return;
    if (read(random, id, UUID) == UUID) output_fact("boot %s", id);
    close(random);
}

int output_open(const char *pattern, const char *recorder)
{
    static int watching_forks;
    int error = 0, opened = -EEXIST;
    if (!buffer && !(buffer = malloc(BUFFER_BYTES))) return ENOMEM;
    /* exec keeps the process id and starts the recording anew: never write over what is there */
    for (int again = 0; opened == -EEXIST && again < MOST_FILES; again++) opened = output_create(pattern, again);
    if (opened < 0) return -opened;
    if (!watching_forks) pthread_atfork(output_begin, output_end, in_child);
    watching_forks = 1;
    output_begin();
    forget_names();
    file = opened;
    failed = 0;
    filled = 0;
    rows = lost = 0;
    name_next = 0;
    output_fact("turnbuckle-trace 1");
    output_fact("recorder %s", recorder);
    output_fact("pid %ld", (long)getpid());
    output_fact("program %s", program_invocation_short_name);
    tell_rank();
    tell_boot();
    output_fact("unwritten %018d", 0);
    unwritten_at = (off_t)filled - 19;
    write_out();
    error = failed;
    output_end();
    return error;
}

void output_flush(void)
{
    output_begin();
    write_out();
    output_end();
}

int output_close(void)
{
    output_begin();
    int error = failed;
    if (file >= 0) {
        output_fact("rows %" PRIu64, rows);
        output_fact("lost %" PRIu64, lost);
        output_fact("end");
        write_out();
        if (failed) tell_unwritten();
        if (close(file) && !failed) failed = errno;
        error = failed;
    }
    file = -1;
    forget_names();
    output_end();
    return error;
}

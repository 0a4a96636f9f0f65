/* awake.c - keeps cores from falling idle: awake CORE...
 *
 * A core that halts is woken through the hypervisor, and the later the longer it slept.  One thread a core spins under SCHED_IDLE, which gives way to
 * any other work at once.  Ends with its parent.  Build: cc -O2 awake.c
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        if (i < count - 1 && fork()) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        cpu_set_t set;
        struct sched_param none = { 0 };
        CPU_ZERO(&set);
        CPU_SET(atoi(words[i]), &set);
        if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_IDLE, &none)) return 1;
        for (;;)
            ;
    }
    return 2;
}

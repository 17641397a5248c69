// rename.h - the thread IR's one transformation: loops that hand registers to their next round.
#ifndef BATON_THREAD_RENAME_H
#define BATON_THREAD_RENAME_H

#include "thread.h"

// Rewrites every loop for which rename.c can prove it right. A hand-over that concerns a tensor
// product and must stay is told to `d` as a note.
void thread_rename(ThreadModule *m, Diag *d);

#endif

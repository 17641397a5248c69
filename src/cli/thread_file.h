// thread_file.h - a kernel in the thread IR as the input of a command.
#ifndef BATON_CLI_THREAD_FILE_H
#define BATON_CLI_THREAD_FILE_H

#include "../plan/plan.h"

// Reads FILE.thr. The launch plan stands in `//@` lines, as `baton build --emit=thread` writes
// them. A file without them is given a plan with one step a kernel: its integers are sizes that are
// left open, and the boxes of its tensor maps stand in comments, innermost extent last:
//
//   # tmap tmap_a: a box[64,32] swz128
//
// False: the reason is in the Diag. Whether the kernel obeys the law (thread_check) is not asked.
bool cli_read_thread(const char *path, Arena *a, Diag *d, ThreadModule **module, Plan **plan);

#endif

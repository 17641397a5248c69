// ptx.h - thread IR to PTX for sm_90a. In: a module that passed thread_check. Out: one text that
// the driver or ptxas assembles, with the launch plan as comment lines at its head ("//@ ..."), so
// that the file alone is enough to run. Nothing is decided here: the same module gives the same
// text, instruction by instruction.
#ifndef BATON_PTX_H
#define BATON_PTX_H

#include "../plan/plan.h"
#include "../thread/thread.h"

// `plan` may be NULL. False after an error: something that PTX cannot say (or not yet).
bool ptx_print(const ThreadModule *m, const Plan *plan, Diag *d, Buf *out);

#endif

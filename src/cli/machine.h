// machine.h - machine code of a compilation, for programs that only a looked-at one may run.
#ifndef BATON_CLI_MACHINE_H
#define BATON_CLI_MACHINE_H

#include "../pass.h"

// Assembles the PTX of a finished compilation with ptxas from PATH and audits what came out
// (src/verify/audit.h). False: there is no ptxas, it failed, or the audit found something; the
// reason is in the Diag. The caller frees *cubin.
bool cli_machine_code(Compilation *c, Buf *cubin);

#endif

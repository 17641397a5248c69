// check.h - what the two halves of the checker and the PTX printer share.
#ifndef BATON_THREAD_CHECK_H
#define BATON_THREAD_CHECK_H

#include "text.h"

// Is there a conversion between these two types?
bool thread_cvt_legal(ThreadType to, ThreadType from);

// check_address.c: for a kernel whose structure is sound, runs the integer part of the program on
// sample values and compares every address and descriptor with the coordinates beside it, lane by
// lane. Returns false after reporting a disagreement.
bool thread_check_addresses(const ThreadModule *m, const ThreadFn *fn, Diag *d);

#endif

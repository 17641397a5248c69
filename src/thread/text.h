// text.h - what printer, reader and checker share about the text form: how the attribute `n` of an
// operation is spelled, and which words its flags have. Rows live in tables.c.
//
// An operation is one line:
//   [@[!]%p] name[.suffix...] operands [; buffer(coord, ...), ...] [!file:line:col]
// Suffixes stand in this order: comparison or mode, attribute, flags, type, second type.
#ifndef BATON_THREAD_TEXT_H
#define BATON_THREAD_TEXT_H

#include "thread.h"

typedef enum {
    ATTR_NONE,     // n is 0
    ATTR_VECTOR,   // .v2 .v4, nothing for 1
    ATTR_MATRICES, // .x1 .x2 .x4
    ATTR_BYTES,    // .4 .8 .16
    ATTR_EXTENT,   // .n128
    ATTR_SHFL,     // .bfly .idx .up .down
    ATTR_ATOMIC,   // .add .exch .min .max .and .or .xor
    ATTR_PLACE,    // .a0 .a1 ..
    ATTR_RANK,     // the number of coordinates in braces
    ATTR_OPERAND,  // an integer after the name: wgmma.wait 1
    ATTR_REGION,   // spelled by the region itself
} ThreadAttr;
ThreadAttr thread_attr(ThreadOpcode op);

typedef struct {
    u8 op; // ThreadOpcode that may have the flag
    const char *text; // its suffix, without the dot
    u16 flag; // OPF_*
} ThreadFlag;
extern const ThreadFlag thread_flag[];
extern const int thread_flags_n;

extern const char *const reg_class_name[RC_COUNT];
extern const char *const param_kind_name[PARAM_TMAP + 1];
extern const char *const shfl_mode_name[4];

// Operands that a letter of a signature stands for in `op` (1, 2 for an address, n for C).
int thread_sig_operands(const ThreadOp *op, char letter);
// Number of MemRefs that the signature asks for.
int thread_sig_mems(ThreadOpcode op);

#endif

// terms.h - values of registers that steer a kernel: numbers where they are known, and otherwise
// terms over what the launch and the data decide. Equal terms are one term, so two roles that
// compute the same bound from the same size get the same number once the size has one.
#ifndef BATON_VERIFY_TERMS_H
#define BATON_VERIFY_TERMS_H

#include "../thread/thread.h"

typedef u32 Term;
enum { TERM_UNKNOWN = 0 };      // floats, and all that is computed from them

// What a leaf stands for.
// LEAF_HEAD to LEAF_DATA belong to steer.h.
typedef enum { LEAF_PARAM, LEAF_SREG, LEAF_LOAD, LEAF_CHANCE,
               LEAF_HEAD, LEAF_EXIT, LEAF_ROLE, LEAF_DATA } LeafKind;
typedef struct Terms Terms;

Terms *terms_new(Arena *a);
Term term_const(Terms *t, u64 v);
Term term_leaf(Terms *t, LeafKind kind, u64 key);
// Key of a leaf that belongs to several terms (coordinates of a load).
Term term_tuple(Terms *t, Term a, Term b);
// The result of an integer operation; `half` selects the second result of unpack.
Term term_op(Terms *t, const ThreadOp *op, int half, Term a, Term b, Term c);
bool term_value(Terms *t, Term x, u64 *v);
bool term_is_const(const Terms *t, Term x); // the same number in every case
// Is a = b + *offset, by the way they are made?
bool term_offset(const Terms *t, Term a, Term b, i64 *offset);
// Is b = a / *factor, rounded up? Where both are one value divided by constants and rounded up, or
// a is made of b.
bool term_quotients(const Terms *t, Term a, Term b, i64 *factor);
// Leaves without a number under x, each once. At most `max`; returns how many.
int term_leaves(Terms *t, Term x, Term *out, int max);
void term_bind(Terms *t, Term leaf, u64 v);
void term_unbind(Terms *t, Term leaf);
void terms_forget(Terms *t);    // all bindings
u8 term_leaf_kind(const Terms *t, Term leaf);
u64 term_leaf_key(const Terms *t, Term leaf);

// A term from inside. TERM_IS_TUPLE and TERM_IS_OP have operands; an operand that is not there is
// TERM_UNKNOWN.
typedef enum { TERM_IS_NOTHING, TERM_IS_CONST, TERM_IS_LEAF, TERM_IS_TUPLE, TERM_IS_OP } TermForm;
typedef struct {
    u8 form, op, type, type2, cmp, half; // op: ThreadOpcode, or LeafKind of a leaf
    Term a, b, c;
    u64 value;                           // of a constant; key of a leaf
} TermView;
TermView term_view(const Terms *t, Term x);
// Terms that are no constants are below this number; so are their operands.
Term terms_end(const Terms *t);

#endif

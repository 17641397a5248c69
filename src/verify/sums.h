// sums.h - terms as sums, and what the rounds of a loop add to the registers that it carries.
#ifndef BATON_VERIFY_SUMS_H
#define BATON_VERIFY_SUMS_H

#include "steer.h"

enum { LIN_TERMS = 12, GROWTH_CONDITIONS = 6, SUMS_FUEL = 600 };

typedef struct {
    const Steer *s;
    Terms *t;
    bool *varies;          // per term: may differ between rounds of the loop that is looked at
} Sums;

i64 sums_gcd(i64 a, i64 b); // of the absolute values
bool term_number(const Sums *r, Term x, i64 *v);
// A constant operand with its sign; 32-bit constants are kept without.
bool term_signed(const Sums *r, u8 type, Term x, i64 *v);
bool type_is_word(u8 type); // integers of 32 and 64 bits
bool sums_varies(const Sums *r, Term x);
bool sums_bounds_vary(const Sums *r, const SteerLoop *k);

typedef struct {
    bool ok;               // entry `base` at the start of the round, and what is added to it:
    int base;
    bool known;            // c, the same in every round
    i64 c;
    i64 g;                 // always a multiple of g; 0: nothing
    bool sums;             // inner loops decide how much,
    int nconditions;       // or these conditions
    Term condition[GROWTH_CONDITIONS];
} Growth;

// How the value follows from what an entry of `loop` had at the start of the round.
Growth sums_growth(const Sums *r, int loop, Term x);

// c + sum of k[i] * term[i], without wrapping.
typedef struct {
    bool ok;
    int n;
    Term term[LIN_TERMS];
    i64 k[LIN_TERMS];
    i64 c;
} Lin;

void lin_add(Lin *to, Term term, i64 k);
Lin lin_sum(Lin a, const Lin *b, i64 k); // a + k * b
// Registers that grow by the same in every round are told by the counter of their loop.
Lin sums_lin(const Sums *r, Term x);

#endif

// check.h - `baton check`: a table of parts, each of which proves something about one kernel for
// all sizes, and the report that they write to. A part reads the thread IR and the plan, says what
// it proved in one line, and puts down each thing that it showed wrong or could not decide. What is
// not decided is never clean: it is counted and printed.
#ifndef BATON_VERIFY_CHECK_H
#define BATON_VERIFY_CHECK_H

#include "../plan/plan.h"

// One broken rule, or one question that stayed open. Texts live in the report's arena.
typedef struct {
    const char *rule;        // "O6", "bounds", "output"
    const char *kernel;
    const char *text;        // one sentence: what is wrong, or what could not be shown and why
    const char *hint;        // what would be right; NULL: nothing to add
    Loc loc, other;          // other: the second access or side; line 0: none
} CheckFinding;

// What a part has shown: "bounds" "14 accesses and 6 copies stay inside for all sizes".
typedef struct { const char *kernel, *part, *text; } CheckProof;

typedef struct {
    Arena *arena;            // owns all texts and vectors
    VEC(CheckFinding) broken;
    VEC(CheckFinding) open;  // neither proved nor refuted
    VEC(CheckProof) proved;
    VEC(const char *) assumed; // what comes from the contract or from data, each once
    i64 cases, states;         // that the proof of the handoffs went through, of all kernels
} CheckReport;

// One kernel. `step` launches it, NULL when the plan has none (kernels written in the thread IR).
typedef struct {
    const ThreadModule *module;
    const ThreadFn *fn;
    const Plan *plan;        // NULL: none
    const PlanStep *step;
    const Diag *diag;        // names of files
    bool thorough;           // no limit of work but for minutes
    CheckReport *report;
} CheckJob;

typedef struct {
    const char *name;
    void (*run)(const CheckJob *job);
    bool quick;              // runs in every `baton build`: milliseconds
} CheckPart;

// Appends to the report; texts are copied into its arena.
CheckFinding *check_broken(const CheckJob *job, const char *rule, Loc loc, const char *text);
CheckFinding *check_open(const CheckJob *job, const char *rule, Loc loc, const char *text);
void check_proved(const CheckJob *job, const char *part, const char *text);
void check_assumed(const CheckJob *job, const char *text);

// How much: all parts, each up to about a second; the quick ones only; or all without that limit.
typedef enum { CHECK_FULL, CHECK_QUICK, CHECK_THOROUGH } CheckEffort;
// Runs the parts on every kernel of the module.
void check_module(const ThreadModule *m, const Plan *plan, const Diag *d, const CheckPart *parts,
                  int nparts, CheckEffort effort, CheckReport *report);

// What is broken as errors, with the hint and a note at the second place.
void check_errors(const CheckReport *r, Diag *d);

// ---- the parts that need no integer sets --------------------------------------------------------
// order.c: the handoffs for every number of rounds (O2 to O8, O10 to O15, deadlock, reads of what
// nobody wrote).
void check_order(const CheckJob *job);
// products.c: registers of products (O9).
void check_products(const CheckJob *job);
// stores.c: bulk stores at the end of their threads (O7).
void check_stores(const CheckJob *job);
// mbarriers.c: initialisation before use (O8), bytes and arrivals of one operation (O10).
void check_init(const CheckJob *job);
void check_bytes(const CheckJob *job);
// barriers.c: named barriers (O11).
void check_barriers(const CheckJob *job);
// registers.c: shares of registers (O12).
void check_registers(const CheckJob *job);
// values.c: reads of registers that no path writes.
void check_values(const CheckJob *job);

#endif

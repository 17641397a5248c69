// pass.h - the way of a kernel from text to PTX as one table of passes, and the run over it.
//
// A pass is a row: its name, the form of the program that it leaves behind, what must have run
// before it and why. The table stands in pass.c and is the whole pipeline; its order constraints
// are data and are checked before anything runs. After every pass the checker of the form runs
// (always after the last one of a form, after each one when `check_each`).
#ifndef BATON_PASS_H
#define BATON_PASS_H

#include "ast/ast.h"
#include "contract.h"
#include "thread/thread.h"
#include "tile/tile.h"

// Forms of the program, in the order of the pipeline. --emit and --dump print them. PTX and CUDA
// are two texts of one program: the way to CUDA does not lead over PTX.
typedef enum { FORM_AST, FORM_TILE, FORM_THREAD, FORM_PTX, FORM_CUDA, FORM_COUNT } PassForm;
extern const char *const pass_form_name[FORM_COUNT]; // "ast" "tile" "thread" "ptx" "cuda"

// Rows of the table, and passes that one may need directly (needs of needs follow by themselves).
enum { PASS_MAX = 32, PASS_MAX_NEEDS = 3 };

// One run of the pipeline: what the caller wants, and what the passes leave for each other. A
// result is there once the pass that makes it has run, and stays until the arena goes.
typedef struct Compilation {
    // what to compile
    const char *path;          // for messages
    const char *text;          // must outlive the Compilation
    size_t text_n;
    const AstDefine *defines;
    int ndefines;
    const char *entry;         // tile function; NULL: the only one of the file
    PassForm until;            // stop once this form is reached
    TileOptions options;       // that change the program
    // what to show and check besides
    const char *dump;          // pass after which the program is printed, or "all"; NULL: none
    Buf *dump_out;
    bool check_each;           // run the checker after every pass
    bool quick;                // run the quick rules of src/verify on the finished thread form
    // memory and messages, given by the caller; everything below lives in the arena
    Arena *arena;
    Diag *diag;
    // results
    u16 file;
    Intern *names;
    ExprPool *exprs;
    AstFile *ast;
    Contract *contract;        // NULL: the file has none
    TileModule *tile;          // one function: the entry
    ThreadModule *thread;
    Plan *plan;                // the entry's
    Buf ptx, cuda;             // the caller frees them
    double ms[PASS_MAX];       // time of each pass, milliseconds
    double check_ms;           // of all checkers together
    double quick_ms;           // of the quick rules
} Compilation;

typedef struct {
    const char *name;
    PassForm form;             // of the program after the pass
    bool (*run)(Compilation *c); // false: errors are in the Diag
    const char *needs[PASS_MAX_NEEDS];
    const char *reason;        // why it stands where it stands
} Pass;

extern const Pass pass_table[];
extern const int pass_count;

// Runs the table up to `c->until`. False when there were errors, all of them in c->diag: those of
// the source, and a program that breaks the rules of its form, with the pass that made it so.
// Aborts with BUG only when the table breaks its own constraints.
bool pass_compile(Compilation *c);
// NULL when every row's needs stand before it and forms never go back, else the name of the first
// row that stands in a wrong place.
const char *pass_check_order(const Pass *table, int n);
// The program in a form that has been reached, as text.
void pass_print(const Compilation *c, PassForm form, Buf *out);
// Table of times: one line a pass.
void pass_print_times(const Compilation *c, Buf *out);

#endif

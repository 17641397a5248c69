// contract.h - the contract at the head of a .co file, understood: what the kernel computes, on
// which sizes and inputs `baton run` tries it, and with which reference and tolerance it is
// checked.
//
//     //! op: attention_forward(q, k, v) -> o
//     //! sizes: B=1 H=2 S=512                     defaults of the plan's symbols
//     //! where: D == 128, S >= 0                  checks of the plan, separated by commas
//     //! with: ctas = device.sms                  integer parameters that the launch computes
//     //! workspace: tasks = causal_tasks(ctas, B, H, cdiv(S, 128), 4, 0)
//     //! inputs: q,k = uniform(-2,2)  v = uniform(-1,1)
//     //! assume: tasks lists each (tile, head, batch) once
//     //! check: reference attention causal=1 scale=rsqrt(D); abs 0.05 rel 0.1; expect 2e-3
//
// Parameters of `with` and `workspace` are not passed by the caller: the first are expressions of
// sizes and device properties, the second tensors that a function of ops/host.h fills.
//
// `op`, `inputs` and `check` describe the whole file, so they are checked against the function that
// is compiled. An unknown key, a name that the function does not have, or a second line of one key
// (`assume` may come several times) is an error at its place.
#ifndef BATON_CONTRACT_H
#define BATON_CONTRACT_H

#include "base/expr.h"
#include "plan/plan.h"

typedef struct AstFile AstFile; // ast/ast.h: only the reader looks inside

// Every part keeps its place in the file, so that what is found wrong later, against the function
// or the arrays, can still point there.
typedef struct {
    const char *name; // interned
    Loc loc;
} ContractName;

typedef struct { // `S=512`
    const char *name; // symbol of the plan
    i64 value;
    Loc loc;
} ContractSize;

typedef struct {
    const char *name;
    const char *spec; // as written: "uniform(-2,2)"
    Loc loc;
} ContractInput;

typedef struct { // `causal=1`
    const char *key, *value;
    Loc loc;
} ContractArgument;

typedef struct { // a condition or an assumption, as written
    const char *text;
    Loc loc;
} ContractText;

typedef struct { // `ctas = device.sms`
    ContractName param;
    ContractText value;
} ContractWith;

typedef struct { // `tasks = causal_tasks(ctas, B)`
    ContractName param, function;
    VEC(ContractText) args;
} ContractWorkspace;

typedef struct {
    const char *op; // NULL: no such line
    Loc op_loc;
    VEC(ContractName) in, out; // parameters, in the order of the operation
    VEC(ContractSize) sizes;
    VEC(ContractText) where; // one condition each
    VEC(ContractWith) with;
    VEC(ContractWorkspace) workspaces;
    VEC(ContractInput) inputs;
    VEC(ContractText) assume;
    const char *reference; // NULL: unchecked
    Loc check_loc;
    VEC(ContractArgument) arguments; // of the reference
    double abs, rel;                 // |got - want| <= abs + rel * |want|; 0 when not written
    bool has_expect;
    double expect; // usual error
} Contract;

// NULL when the file has no contract. Errors go to `d`; what could be read is in the result.
Contract *contract_read(Arena *a, Intern *names, Diag *d, const AstFile *f);

// The entry of a parameter, or NULL.
const ContractWith *contract_with(const Contract *c, const char *param);
const ContractWorkspace *contract_workspace(const Contract *c, const char *param);
// The value of `with`, or an argument of a workspace, over the plan's symbols and the device
// properties. An argument may also use names of `with`, which are replaced by their values. NULL
// after an error.
const Expr *contract_value(const Contract *c, const AstFile *f, ExprPool *p, Arena *a, Diag *d,
                           Plan *plan, const ContractText *t);

// Gives the plan's symbols their defaults and adds the conditions of `where:` as checks. Names must
// be symbols, parameters, or (in conditions) integer macros of the file. False after an error.
bool contract_apply(const Contract *c, const AstFile *f, ExprPool *p, Arena *a, Diag *d,
                    Plan *plan);

// The generator of an input, or NULL.
const char *contract_input(const Contract *c, const char *param);

#endif

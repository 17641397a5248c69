// pass.c - THE pass table: the whole way from text to PTX on one page, and the loop that runs it.
#include "pass.h"

#include "emit/cuda.h"
#include "emit/ptx.h"
#include "lower/lower.h"
#include "thread/rename.h"
#include "tile/from_ast.h"
#include "tile/passes.h"
#include "verify/quick.h"

#include <string.h>
#include <time.h>

const char *const pass_form_name[FORM_COUNT] = {"ast", "tile", "thread", "ptx", "cuda"};

// ---- the passes ---------------------------------------------------------------------------------
// The text is registered first, so that every later place can be shown with its line.
static bool run_parse(Compilation *c)
{
    c->file = diag_add_file(c->diag, c->path, c->text, c->text_n);
    c->ast = ast_parse(c->arena, c->names, c->diag, c->file, c->text, c->text_n, c->defines,
                       c->ndefines);
    return diag_errors(c->diag) == 0;
}

// The entry when none was asked for: the only tile function.
static bool choose_entry(Compilation *c)
{
    Buf all = {0};
    int n = 0;
    Loc second = {0};
    for (int i = 0; i < c->ast->nparts; i++) {
        const AstPart *p = &c->ast->parts[i];
        if (p->kind != PART_TILE || !p->name) continue;
        if (n == 0) c->entry = p->name;
        if (n == 1) second = p->loc;
        buf_printf(&all, "%s%s", n++ ? ", " : "", p->name);
    }
    if (n == 0)
        diag_error(c->diag, (Loc){.file = c->file}, "a tile function begins with __co__",
                   "there is no tile function in this file");
    if (n > 1)
        diag_error(c->diag, second, "choose one with -e NAME",
                   "the file has %d tile functions: %s", n, all.s);
    buf_free(&all);
    return n == 1;
}

// What changed the program, for those who find it later.
static const char *options_text(Arena *a, const TileOptions *o)
{
    bool handoff = o->handoff > HANDOFF_PROXY;
    return arena_printf(a, "%s%s%s%s", o->sequential ? "--no-specialise" : "",
                        o->sequential && handoff ? " " : "", handoff ? "--handoff=" : "",
                        handoff ? tile_handoff_name[o->handoff] : "");
}

// Names and types; of the contract they need which parameters the launch makes. Then the contract
// needs the function's parameters and symbols, and gives the plan its defaults and conditions.
static bool run_resolve(Compilation *c)
{
    if (!c->entry && !choose_entry(c)) return false;
    TileModule *m = ARENA_NEW(c->arena, TileModule);
    m->arena = c->arena;
    m->names = c->names;
    m->exprs = c->exprs;
    m->diag = c->diag;
    m->options = c->options;
    c->contract = contract_read(c->arena, c->names, c->diag, c->ast);
    bool ok = tile_from_ast(m, c->ast, c->contract, intern(c->names, c->entry));
    if (!ok || m->fns.n != 1) return false;
    c->tile = m;
    c->plan = m->fns.at[0]->plan;
    c->plan->options = options_text(c->arena, &c->options);
    if (c->contract)
        contract_apply(c->contract, c->ast, c->exprs, c->arena, c->diag, c->plan);
    return diag_errors(c->diag) == 0;
}

static bool run_advice(Compilation *c) { return tile_advise(c->tile); }
static bool run_layouts(Compilation *c) { return tile_infer_layouts(c->tile); }

static bool run_fuse(Compilation *c) { return tile_fuse(c->tile); }
static bool run_early(Compilation *c) { return tile_start_copies_early(c->tile); }
static bool run_pipeline(Compilation *c) { return tile_pipeline(c->tile); }
static bool run_handoff(Compilation *c) { return tile_handoff(c->tile); }

// Also fills the steps of the plan, which the back ends and the runtime launch from.
static bool run_lower(Compilation *c)
{
    ThreadModule *m = ARENA_NEW(c->arena, ThreadModule);
    m->arena = c->arena;
    m->exprs = c->exprs;
    m->diag = c->diag;
    if (!lower_module(c->tile, m)) return false;
    c->thread = m;
    return true;
}

static bool run_rename(Compilation *c)
{
    thread_rename(c->thread, c->diag);
    return true;
}

static bool run_emit(Compilation *c) { return ptx_print(c->thread, c->plan, c->diag, &c->ptx); }

// The printer gets the file's texts, not its tree: back ends see the thread IR only.
static bool run_cuda(Compilation *c)
{
    static const u8 kind[] = {[PART_HOST] = CUDA_HOST_TEXT, [PART_TILE] = CUDA_TILE_FUNCTION,
                              [PART_DEVICE] = CUDA_DEVICE_TEXT,
                              [PART_DEVICE_BLOCK] = CUDA_DEVICE_TEXT};
    const AstFile *f = c->ast;
    CudaPart *part = ARENA_ARRAY(c->arena, CudaPart, f->nparts + 1);
    for (int i = 0; i < f->nparts; i++)
        part[i] = (CudaPart){kind[f->parts[i].kind], f->parts[i].name, f->parts[i].loc,
                             f->parts[i].text, f->parts[i].text_n};
    CudaDefine *define = ARENA_ARRAY(c->arena, CudaDefine, c->ndefines + 1);
    for (int i = 0; i < c->ndefines; i++)
        define[i] = (CudaDefine){c->defines[i].name, c->defines[i].value};
    CudaSource s = {.module = c->thread, .plan = c->plan, .parts = part, .nparts = f->nparts,
                    .defines = define, .ndefines = c->ndefines, .path = c->path,
                    .text = c->text, .text_n = c->text_n, .entry = c->entry};
    return cuda_print(&s, c->diag, &c->cuda);
}

// ---- the table ----------------------------------------------------------------------------------
// Columns: name, form that it leaves, function, what must stand before it, why.
const Pass pass_table[] = {
    {"parse", FORM_AST, run_parse, {NULL}, "text to syntax tree; macros are expanded here"},
    {"resolve", FORM_TILE, run_resolve, {"parse"},
     "names, types and shapes; also the launch plan, but for its steps, and the contract"},
    {"advice", FORM_TILE, run_advice, {"resolve"},
     "warnings about pipelines in the old way; in front of what changes the program"},
    {"layouts", FORM_TILE, run_layouts, {"resolve"},
     "products and reductions decide which thread holds which element of a fragment"},
    {"fuse", FORM_TILE, run_fuse, {"resolve"},
     "products that are only added become multiply-adds, once and for all back ends"},
    {"early", FORM_TILE, run_early, {"resolve"},
     "copies start before the arithmetic in front of them, which hides their latency"},
    {"pipeline", FORM_TILE, run_pipeline, {"fuse", "early"},
     "loops that ask for it become producer and consumers; nothing changes the order of statements "
     "behind it, so the last use of a slot is the last one"},
    {"handoff", FORM_TILE, run_handoff, {"pipeline"},
     "what protects each slot that is handed back; refuses what is not sound"},
    {"lower", FORM_THREAD, run_lower, {"layouts", "handoff"},
     "machine operations, barriers, addresses, and the steps of the launch plan; needs layouts"},
    {"rename", FORM_THREAD, run_rename, {"lower"},
     "registers that a loop hands to its next round change names instead of being moved"},
    {"emit", FORM_PTX, run_emit, {"rename"}, "PTX by table, with the launch plan in its head"},
    {"cuda", FORM_CUDA, run_cuda, {"rename"}, "CUDA C++ from the same program, instead of PTX"},
};
const int pass_count = COUNT(pass_table);
_Static_assert(COUNT(pass_table) <= PASS_MAX, "Compilation.ms has a place for each pass");

// A row may need only rows above it, and forms follow one another: so running the table from the
// top is always right.
const char *pass_check_order(const Pass *table, int n)
{
    for (int i = 0; i < n; i++) {
        if (i && table[i].form < table[i - 1].form) return table[i].name;
        for (int k = 0; k < PASS_MAX_NEEDS && table[i].needs[k]; k++) {
            int j = 0;
            while (j < i && strcmp(table[j].name, table[i].needs[k]) != 0) j++;
            if (j == i) return table[i].name;
        }
    }
    return NULL;
}

// ---- the loop -----------------------------------------------------------------------------------
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// The law of the form that was just reached. A program that breaks it came from a wrong pass, or
// from a source that an earlier stage should have refused; the message says after which pass.
static bool check_form(Compilation *c, const Pass *p)
{
    double start = now_ms();
    bool ok = true;
    switch (p->form) {
    case FORM_TILE: ok = tile_check(c->tile); break;
    case FORM_THREAD:
        ok = thread_check(c->thread, c->diag) && plan_check(c->plan, c->thread, c->diag);
        break;
    default: break; // the parser has no law beyond its types; PTX is checked by its assembler
    }
    c->check_ms += now_ms() - start;
    if (!ok)
        diag_error(c->diag, (Loc){.file = c->file},
                   "if the places named here are right, it is a bug in baton, worth reporting",
                   "the program breaks the rules of the %s form after the pass `%s`",
                   pass_form_name[p->form], p->name);
    return ok;
}

// Handoffs that are broken whatever the sizes: the source's fault nearly always, since passes
// insert what they can.
static bool check_quickly(Compilation *c)
{
    double start = now_ms();
    bool ok = quick_check(c->thread, c->plan, c->diag);
    c->quick_ms = now_ms() - start;
    return ok;
}

static void dump(const Compilation *c, const Pass *p)
{
    buf_printf(c->dump_out, "==== after %s\n", p->name);
    pass_print(c, p->form, c->dump_out);
}

// Does the row lie on the way to the form that was asked for?
static bool on_the_way(const Compilation *c, const Pass *p)
{
    return p->form <= c->until && !(p->form == FORM_PTX && c->until == FORM_CUDA);
}

bool pass_compile(Compilation *c)
{
    const char *misplaced = pass_check_order(pass_table, pass_count);
    if (misplaced) BUG("the pass %s stands before one that it needs", misplaced);
    c->names = intern_new(c->arena);
    c->exprs = expr_pool_new(c->arena, c->names);
    for (int i = 0; i < pass_count && pass_table[i].form <= c->until; i++) {
        const Pass *p = &pass_table[i];
        if (!on_the_way(c, p)) continue;
        double start = now_ms();
        bool ok = p->run(c);
        c->ms[i] = now_ms() - start;
        if (!ok && !diag_errors(c->diag)) BUG("the pass %s failed without a message", p->name);
        if (!ok) return false;
        bool last = i + 1 == pass_count || pass_table[i + 1].form != p->form;
        if (c->dump && (strcmp(c->dump, "all") == 0 || strcmp(c->dump, p->name) == 0)) dump(c, p);
        // Layouts and the like may be missing between passes of a form, so checkers of half-made
        // programs run only where they are asked for.
        if ((last || c->check_each) && !check_form(c, p)) return false;
        if (last && p->form == FORM_THREAD && c->quick && !check_quickly(c)) return false;
    }
    return true;
}

void pass_print(const Compilation *c, PassForm form, Buf *out)
{
    switch (form) {
    case FORM_AST: ast_print(c->ast, out); return;
    case FORM_TILE: tile_print(c->tile, out); return;
    case FORM_THREAD:
        plan_print(c->plan, "//@ ", out);
        thread_print(c->thread, out);
        return;
    case FORM_PTX: buf_write(out, c->ptx.s ? c->ptx.s : "", c->ptx.n); return;
    case FORM_CUDA: buf_write(out, c->cuda.s ? c->cuda.s : "", c->cuda.n); return;
    case FORM_COUNT: break;
    }
    BUG("form %d", form);
}

// A pass that did not run was not on the way and is left out.
void pass_print_times(const Compilation *c, Buf *out)
{
    double total = c->check_ms + c->quick_ms;
    for (int i = 0; i < pass_count && pass_table[i].form <= c->until; i++) {
        if (!on_the_way(c, &pass_table[i])) continue;
        buf_printf(out, "%10.3f ms  %s\n", c->ms[i], pass_table[i].name);
        total += c->ms[i];
    }
    buf_printf(out, "%10.3f ms  checks\n%10.3f ms  quick rules\n%10.3f ms  in all\n", c->check_ms,
               c->quick_ms, total);
}

// kernel.c - one kernel of a package: reads its words, compiles its source to all forms that the
// package holds, and refuses what could not be checked or must not be given away.
#include "package.h"

#include "../cli/kernel_word.h"
#include "../cli/machine.h"

#include <ctype.h>
#include <string.h>

// ---- compiled -----------------------------------------------------------------------------------
// What a package says about its kernels is that they are right, so it must be able to look.
static bool can_be_checked(const Package *p, const PackageKernel *k, const Compilation *c)
{
    const char *why = !c->contract               ? "no contract"
                      : !c->contract->op         ? "no `op:` in its contract"
                      : !c->contract->reference  ? "no reference in its contract"
                                                 : NULL;
    if (why)
        diag_error(p->diag, (Loc){0},
                   "a package checks each kernel before it is timed; for example: "
                   "//! check: reference add; abs 0 rel 0",
                   "%s has %s", k->source.path, why);
    else if (c->tile->unsound)
        diag_error(p->diag, (Loc){0}, "--unsafe is for showing the race",
                   "%s hands back slots that may still be read; a package holds no such kernel",
                   k->source.path);
    return !why && !c->tile->unsound;
}

// As the user gave it, for the messages, and for what is known of the program.
static bool compile(Package *p, PackageKernel *k)
{
    Compilation c = {.until = FORM_PTX, .quick = true, .arena = p->arena, .diag = p->diag};
    bool ok = cli_read_source(&k->source, &c);
    c.options.assembled = true;
    ok = ok && pass_compile(&c) && can_be_checked(p, k, &c);
    buf_free(&c.ptx);
    if (!ok) return false;
    buf_write(&k->text, c.text, c.text_n);
    k->contract = c.contract;
    k->title = cli_kernel_title(p->arena, c.text);
    k->audited = c.tile->delayed != 0;
    return true;
}

// Once more by the name that the source has in the package, since generated code names it. *c has
// the code; its messages were all told.
static bool compile_again(Package *p, const PackageKernel *k, PassForm until, bool assembled,
                          Compilation *c)
{
    *c = (Compilation){.until = until, .arena = p->arena, .diag = diag_new(p->arena),
                       .path = arena_printf(p->arena, "%s/%s.co", k->folder, k->name),
                       .text = k->text.s, .text_n = k->text.n, .entry = k->source.entry,
                       .defines = k->source.defines.at, .ndefines = k->source.defines.n,
                       .options = k->source.options};
    c->options.assembled = assembled;
    if (pass_compile(c)) return true;
    Buf text = {0};
    diag_print(c->diag, &text);
    diag_error(p->diag, (Loc){0}, NULL, "%s cannot become %s:\n%s", k->source.path,
               pass_form_name[until], text.s);
    buf_free(&text);
    return false;
}

// PTX, and machine code where there is an assembler. Where the handoff relies on what it makes,
// there must be one, and its code must pass the audit.
static bool make_ptx(Package *p, PackageKernel *k)
{
    Compilation c;
    bool ok = compile_again(p, k, FORM_PTX, true, &c);
    if (ok) buf_write(&k->ptx, c.ptx.s, c.ptx.n);
    c.diag = p->diag;
    if (ok && (k->audited || p->assembler)) ok = cli_machine_code(&c, &k->cubin);
    buf_free(&c.ptx);
    return ok;
}

// CUDA C++. Another assembler will take it, so its handoffs are protected by fences.
static bool make_cuda(Package *p, PackageKernel *k)
{
    Compilation c;
    bool ok = compile_again(p, k, FORM_CUDA, false, &c);
    if (ok) buf_write(&k->cuda, c.cuda.s, c.cuda.n);
    buf_free(&c.cuda);
    return ok;
}

// A name of files, of words of a script and of a list with commas.
static bool has_plain_name(const Package *p, const PackageKernel *k)
{
    bool plain = *k->name && *k->name != '-';
    for (const char *s = k->name; *s; s++)
        plain = plain && (isalnum((unsigned char)*s) || *s == '_' || *s == '-');
    if (plain) return true;
    diag_error(p->diag, (Loc){0},
               arena_printf(p->arena, "give it one: 'mine=%s'", k->source.path),
               "`%s` is no name for a kernel in a package: letters, digits, _ and - make one",
               k->name);
    return false;
}

// ---- together -----------------------------------------------------------------------------------
// By the reference and all that it is told, such as causal=1.
static bool same_reference(const Contract *a, const Contract *b)
{
    bool same = strcmp(a->reference, b->reference) == 0 && a->arguments.n == b->arguments.n;
    for (int i = 0; same && i < a->arguments.n; i++)
        same = strcmp(a->arguments.at[i].key, b->arguments.at[i].key) == 0 &&
               strcmp(a->arguments.at[i].value, b->arguments.at[i].value) == 0;
    return same;
}

static bool fits_the_others(const Package *p, const PackageKernel *k)
{
    for (int i = 0; i < p->kernels.n; i++) {
        const PackageKernel *other = &p->kernels.at[i];
        if (!other->contract) continue; // it has its message
        if (strcmp(other->name, k->name) == 0) {
            diag_error(p->diag, (Loc){0},
                       arena_printf(p->arena, "give it one: %s2=%s", k->name, k->source.path),
                       "two kernels have the name %s: %s and %s", k->name, other->source.path,
                       k->source.path);
            return false;
        }
        bool same_op = strcmp(other->contract->op, k->contract->op) == 0;
        if (same_op && same_reference(other->contract, k->contract)) continue;
        if (same_op)
            diag_error(p->diag, k->contract->check_loc, "a package for each",
                       "the kernels of a package compute the same; %s and %s have another "
                       "reference, or other arguments of it", other->name, k->name);
        else
            diag_error(p->diag, k->contract->op_loc, "a package for each operation",
                       "the kernels of a package take turns at one operation; %s is %s, %s is %s",
                       other->source.path, other->contract->op, k->source.path, k->contract->op);
        return false;
    }
    return true;
}

bool package_add(Package *p, const char *item)
{
    PackageKernel k = {.folder = "kernels"};
    KernelWord word;
    if (!cli_kernel_word("package", item, &word, p->arena, p->diag)) return false;
    k.name = word.name;
    k.options = word.options;
    k.source = word.source;
    if (!has_plain_name(p, &k)) return false;
    bool ok = compile(p, &k) && fits_the_others(p, &k) && make_ptx(p, &k) && make_cuda(p, &k);
    vec_push(p->arena, &p->kernels, k); // owns its texts from here on
    return ok;
}

bool package_add_ceiling(Package *p)
{
    const PackageSource *s = package_source("bench/ceiling.co");
    PackageKernel *k = &p->ceiling;
    Compilation c;
    *k = (PackageKernel){.name = "ceiling", .folder = "bench", .options = "", .title = "",
                         .source.path = s->name};
    buf_write(&k->text, s->data, (size_t)s->bytes);
    bool ok = compile_again(p, k, FORM_PTX, true, &c);
    k->contract = c.contract;
    if (ok) buf_write(&k->ptx, c.ptx.s, c.ptx.n);
    buf_free(&c.ptx);
    return ok;
}

const char *package_path(const Package *p, const PackageKernel *k, const char *end)
{
    bool generated = strcmp(end, "co") != 0 && strcmp(k->folder, "kernels") == 0;
    return arena_printf(p->arena, "%s/%s.%s", generated ? "generated" : k->folder, k->name, end);
}

static void free_texts(PackageKernel *k)
{
    buf_free(&k->text);
    buf_free(&k->ptx);
    buf_free(&k->cuda);
    buf_free(&k->cubin);
}

void package_free(Package *p)
{
    for (int i = 0; i < p->kernels.n; i++) free_texts(&p->kernels.at[i]);
    free_texts(&p->ceiling);
}

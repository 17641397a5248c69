// table.c - prints kernels.c, the table that the host program of a package has of its kernels:
// names, files, sums, and of the contract what checking and measuring need. Conditions and
// workspaces are not in it: they stand in the launch plan at the head of the PTX.
#include "package.h"

#include "../base/sha256.h"

#include <stdio.h>
#include <stdlib.h>

// A C string; what is not plain ASCII is written in octal, in three digits, so that no letter
// behind it belongs to it.
static void string(const char *s, Buf *out)
{
    buf_putc(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\' || c == '?') // ??x could be a trigraph
            buf_printf(out, "\\%c", c);
        else if (c >= ' ' && c < 127)
            buf_putc(out, (char)c);
        else
            buf_printf(out, "\\%03o", c);
    }
    buf_putc(out, '"');
}

static void field(const char *name, const char *value, Buf *out)
{
    buf_printf(out, "        .%s = ", name);
    string(value, out);
    buf_puts(out, ",\n");
}

// In the fewest digits that read back as the same number.
static void number(double x, Buf *out)
{
    char text[40];
    int digits = 1;
    do snprintf(text, sizeof text, "%.*g", digits++, x);
    while (digits <= 17 && strtod(text, NULL) != x);
    buf_puts(out, text);
}

static void names(const char *member, const ContractName *at, int n, Buf *out)
{
    if (!n) return;
    buf_printf(out, "            .%s = {.at = (ContractName[]){", member);
    for (int i = 0; i < n; i++) {
        buf_printf(out, "%s{.name = ", i ? ", " : "");
        string(at[i].name, out);
        buf_putc(out, '}');
    }
    buf_printf(out, "}, .n = %d},\n", n);
}

static void contract(const Contract *c, Buf *out)
{
    buf_puts(out, "        .contract = {\n            .op = ");
    string(c->op, out);
    buf_puts(out, ",\n");
    names("in", c->in.at, c->in.n, out);
    names("out", c->out.at, c->out.n, out);
    if (c->inputs.n) buf_puts(out, "            .inputs = {.at = (ContractInput[]){");
    for (int i = 0; i < c->inputs.n; i++) {
        buf_puts(out, i ? ",\n                {.name = " : "\n                {.name = ");
        string(c->inputs.at[i].name, out);
        buf_puts(out, ", .spec = ");
        string(c->inputs.at[i].spec, out);
        buf_putc(out, '}');
    }
    if (c->inputs.n) buf_printf(out, "}, .n = %d},\n", c->inputs.n);
    if (c->reference) {
        buf_puts(out, "            .reference = ");
        string(c->reference, out);
        buf_puts(out, ",\n");
    }
    if (c->arguments.n) buf_puts(out, "            .arguments = {.at = (ContractArgument[]){");
    for (int i = 0; i < c->arguments.n; i++) {
        buf_puts(out, i ? ", {.key = " : "{.key = ");
        string(c->arguments.at[i].key, out);
        buf_puts(out, ", .value = ");
        string(c->arguments.at[i].value, out);
        buf_putc(out, '}');
    }
    if (c->arguments.n) buf_printf(out, "}, .n = %d},\n", c->arguments.n);
    buf_puts(out, "            .abs = ");
    number(c->abs, out);
    buf_puts(out, ",\n            .rel = ");
    number(c->rel, out);
    buf_puts(out, ",\n");
    if (c->has_expect) {
        buf_puts(out, "            .has_expect = true,\n            .expect = ");
        number(c->expect, out);
        buf_puts(out, ",\n");
    }
    buf_puts(out, "        },\n");
}

static void kernel(const Package *p, const PackageKernel *k, Buf *out)
{
    const struct {
        const char *member, *end;
        const Buf *content;
    } part[] = {{"source", "co", &k->text}, {"ptx", "ptx", &k->ptx}, {"cuda", "cu", &k->cuda},
                {"cubin", "cubin", &k->cubin}};
    field("name", k->name, out);
    field("title", k->title, out);
    field("options", k->options, out);
    for (int i = 0; i < COUNT(part); i++) {
        const Buf *b = part[i].content;
        if (!b->n) continue;
        field(part[i].member, package_path(p, k, part[i].end), out);
        field(arena_printf(p->arena, "%s_sha256", part[i].member), sha256_hex(p->arena, b->s, b->n),
              out);
    }
    if (k->audited) buf_puts(out, "        .audited = true,\n");
    contract(k->contract, out);
}

void package_table(const Package *p, Buf *out)
{
    buf_puts(out, "// kernels.c - the kernels of this package. Written by `baton package`.\n"
                  "#include \"kernels.h\"\n\n"
                  "const Kernel kernels[] = {\n");
    for (int i = 0; i < p->kernels.n; i++) {
        buf_puts(out, "    {\n");
        kernel(p, &p->kernels.at[i], out);
        buf_puts(out, "    },\n");
    }
    buf_puts(out, "};\nconst int kernel_count = COUNT(kernels);\n\nconst Kernel ceiling = {\n");
    kernel(p, &p->ceiling, out);
    buf_puts(out, "};\n");
}

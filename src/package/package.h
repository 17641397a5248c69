// package.h - a folder that checks and measures kernels on a machine without baton: their sources
// and generated code, the runtime as C sources, a host program and a script. It holds no path and
// no date, so that the same kernels give the same bytes.
//
//   kernel.c   one kernel: its words, compiled to PTX, CUDA C++ and machine code
//   table.c    kernels.c: what the host program knows of the kernels
//   text.c     the files for people, with the names of the kernels filled in
//   write.c    the folder, its sums and the archive
#ifndef BATON_PACKAGE_H
#define BATON_PACKAGE_H

#include "../cli/compile.h"

// A file of baton's own source that goes into every package. The build embeds them in the command
// (tools/embed.sh), so that an installed baton needs no source tree. The files of the folder
// package/ go to other places than they have here (write.c).
typedef struct {
    const char *name;       // in the source tree: "src/base/base.h"
    const char *data;       // not ended by a NUL
    i64 bytes;
} PackageSource;
extern const PackageSource package_sources[];
extern const int package_source_count;
// NULL when there is no such file.
const PackageSource *package_source(const char *name);

typedef struct {
    const char *name;       // "v4"; unique
    const char *folder;     // of its source in the package: "kernels"
    const char *title;      // the first sentence of the source; ""
    const char *options;    // of the compiler, quoted for a shell; ""
    CliSource source;
    const Contract *contract; // with a reference
    Buf text, ptx, cuda, cubin; // the source and what was made of it; cubin.n == 0: there was no
                            // assembler
    bool audited;           // the machine code was, as the policy `delay` needs: only it may run
} PackageKernel;

typedef struct {
    const char *path;       // in the package: "src/main.c"
    const char *data;
    size_t n;
    bool executable;
} PackageFile;

typedef struct {
    const char *folder;
    bool force, archive;
    VEC(PackageKernel) kernels;
    PackageKernel ceiling;  // bench/ceiling.co, which measures what the device can do at most
    VEC(PackageFile) files; // in the order of their paths once all are there
    const char *assembler;  // version of ptxas; NULL: there is none
    Arena *arena;
    Diag *diag;
} Package;

// All return false with the reason in the Diag.

// ---- kernel.c: `[NAME=]FILE.co [options of baton build]`, as one word of the command line
bool package_add(Package *p, const char *item);
bool package_add_ceiling(Package *p);
// Where its file of that end is in the package: "kernels/v4.co", "generated/v4.ptx".
const char *package_path(const Package *p, const PackageKernel *k, const char *end);
void package_free(Package *p);

// ---- table.c
void package_table(const Package *p, Buf *out);

// ---- text.c
// Replaces @WORD@ in a template; every word in it must be known.
void package_fill(const Package *p, const PackageSource *template, Buf *out);

// ---- write.c: the folder, and the archive where it is asked for
bool package_write(Package *p);

#endif

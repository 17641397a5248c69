// cli.h - the subcommands of baton. What they share stands in command.h and job/words.h.
#ifndef BATON_CLI_H
#define BATON_CLI_H

#include "../job/words.h"

int cli_build(int argc, char **argv); // words after "build"
int cli_run(int argc, char **argv);   // words after "run"
int cli_explore(int argc, char **argv); // words after "explore"
int cli_check(int argc, char **argv); // words after "check"
int cli_audit(int argc, char **argv); // words after "audit"
int cli_stress(int argc, char **argv); // words after "stress"
int cli_diagnose(int argc, char **argv); // words after "diagnose"
int cli_bench(int argc, char **argv); // words after "bench"
int cli_bench_cpu(int argc, char **argv); // words after "bench --cpu"
int cli_trace(int argc, char **argv); // words after "trace"
int cli_package(int argc, char **argv); // words after "package"

#endif

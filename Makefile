# Builds baton with gcc and make alone. Everything goes into build/ (or B=some/other/folder).
#
#   make            build/baton, and the library build/libbaton.a and .so
#   make run        build, then compile, run and check the attention kernel
#   make test       all tests; the parts under AddressSanitizer and UBSan are among them
#   make asan       the whole test suite under both sanitizers
#   make mutants    the verifier on the kernels with one operation broken (WRITE=1: its tables)
#   make fuzz       the parser under libFuzzer for FUZZ_SECONDS (needs clang)
#   make size       lines of code, and the caps on files and functions
#   make install    PREFIX=/usr/local
#   make clean

B            := build
ifeq ($(origin CC),default)
CC           := gcc
endif
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60
JOBS         ?= $(shell nproc 2>/dev/null || echo 2)

# The one place of the version is the public header.
VERSION := $(shell sed -n 's/^.define BATON_VERSION_TEXT "\(.*\)"/\1/p' include/baton.h)

WARNINGS := -Wall -Wextra -Wno-unknown-pragmas -Wno-ignored-attributes -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
CFLAGS   := -std=gnu11 -O2 -g -fPIC $(WARNINGS)
LDLIBS   := -ldl -lm -lpthread
ifdef SAN
# Instrumented code sends the compiler's warnings astray; the plain build has -Werror.
CFLAGS  += -Wno-error -w -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=address,undefined
endif

SOURCES := $(sort $(wildcard src/*/*.c rt/*.c ops/*.c) $(filter-out src/main.c,$(wildcard src/*.c)))
# The command has more than the library: `baton check`, whose questions about integer sets libisl
# answers. It is linked statically where its archive is installed; elsewhere they stay open.
ISL     := $(shell printf '\043include <isl/set.h>\n' | $(CC) -E -xc - >/dev/null 2>&1 && \
             for a in libisl.a libgmp.a; do f=$$($(CC) -print-file-name=$$a); test -e "$$f" && echo "$$f"; done)
ISL     := $(if $(word 2,$(ISL)),$(ISL))
SETS    := $(if $(ISL),$(filter-out src/sets/without.c,$(sort $(wildcard src/sets/*.c))),src/sets/without.c)
# It reads JSON (results of `baton bench`, the protocol of its peers) by libjansson, in the same way.
JANSSON := $(shell printf '\043include <jansson.h>\n' | $(CC) -E -xc - >/dev/null 2>&1 && \
             f=$$($(CC) -print-file-name=libjansson.a); test -e "$$f" && echo "$$f")
JSON    := $(if $(JANSSON),src/json/json.c,src/json/without.c)
# Who calls it is no part of the library either.
READERS := $(wildcard src/bench/peer.c src/bench/rival_peer.c src/bench/read.c)
COMMAND := src/main.c src/cli/build.c src/cli/check.c $(SETS) $(JSON) $(READERS)
SOURCES := $(filter-out src/sets/% src/json/json.c src/json/without.c src/cli/build.c src/cli/check.c $(READERS),$(SOURCES))
# `baton bench` proves and reads.
BENCH   := $(sort $(wildcard src/cli/bench*.c))
COMMAND += $(BENCH)
SOURCES := $(filter-out $(BENCH),$(SOURCES))
# Packages are written by the command alone, which has their sources in it.
PACKAGER := src/cli/package.c $(sort $(wildcard src/package/*.c))
COMMAND += $(PACKAGER)
SOURCES := $(filter-out $(PACKAGER),$(SOURCES))
OBJECTS := $(SOURCES:%.c=$(B)/%.o)
UNIT    := $(sort $(wildcard tests/unit/*_test.c tests/unit/*_tool.c))
# One counts basic blocks, so it has a build of its own; the other one takes minutes when it is
# instrumented, in code that explore_drop_test and the checks of tests/race go through as well.
ifdef SAN
UNIT    := $(filter-out tests/unit/growth_test.c tests/unit/drop_sync_test.c,$(UNIT))
endif
TESTS   := $(UNIT:tests/unit/%.c=$(B)/tests/%)
# What `baton package` puts into every package, embedded in the command: the runtime without emulator
# and compiler, and the folder package/. The headers that these include are found by the compiler.
PACKAGED := $(sort $(wildcard package/*.[ch])) package/README.md package/VERSIONS package/run.sh \
            $(sort $(wildcard src/base/*.c src/target/*.c src/job/*.c ops/*.c)) \
            $(addprefix src/plan/,check.c eval.c read.c) src/contract_find.c src/json/write.c \
            $(sort $(filter-out $(addprefix src/bench/,child.c peer.c rival_peer.c read.c compare.c), \
                                $(wildcard src/bench/*.c))) \
            $(sort $(filter-out rt/baton.c rt/emulator.c,$(wildcard rt/*.c))) bench/ceiling.co LICENSE

# `make V=1` shows the commands.
Q := $(if $(V),,@)

ifeq ($(shell command -v $(firstword $(CC)) 2>/dev/null),)
$(error no C compiler `$(CC)`. One command installs what baton needs: sudo sh tools/install.sh)
endif

.PHONY: all run test test-programs mutants asan fuzz size install clean
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/baton $(B)/libbaton.a $(B)/libbaton.so

$(B)/baton: $(COMMAND:%.c=$(B)/%.o) $(B)/package_sources.o $(B)/libbaton.a
	@echo "  link  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(ISL) $(JANSSON) $(LDLIBS)

$(B)/libbaton.a: $(OBJECTS)
	@echo "  ar    $@"
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

$(B)/libbaton.so: $(OBJECTS)
	@echo "  link  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $^ $(LDLIBS)

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

# Assembled from the root folder, where the names of the files count from.
$(B)/package_sources.o: $(B)/package_sources.s
	$(Q)$(CC) -c -o $@ $<

$(B)/package_sources.s: $(PACKAGED) $(wildcard src/*.h src/*/*.h rt/*.h ops/*.h include/*.h) \
                        tools/embed.sh Makefile
	@mkdir -p $(@D)
	@echo "  embed $@"
	$(Q)$(CC) -std=gnu11 -MM $(filter %.c,$(PACKAGED)) > $@.d
	$(Q)headers=$$(tr ' \\' '\n\n' < $@.d | sed ':a; s,[^/]*/\.\./,,; ta' | grep '\.h$$' | \
	    grep -v '^package/' | sort -u) && sh tools/embed.sh $(PACKAGED) $$headers > $@

$(B)/tests/%: tests/unit/%.c $(B)/libbaton.a Makefile
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< $(B)/libbaton.a $(LDLIBS)

# The contract's sizes suit the emulator, which looks for hazards; a GPU gets a real job as well.
run: $(B)/baton
	@$(B)/baton run kernels/attention/v1.co --device=emu
	@if test -e /dev/nvidia0; then echo; \
	    $(B)/baton run kernels/attention/v1.co B=4 H=32 S=8192 --device=cuda:0; \
	else echo "  no GPU here: on a machine with one the same command runs the kernel on it as well"; fi

# The driver and its management library without a GPU, which the runtime's tests open by their path.
FAKES := $(B)/tests/fake/libcuda.so.1 $(B)/tests/fake/libnvidia-ml.so.1 $(B)/tests/fake/libnvidia-ml-old.so.1
$(B)/tests/fake/libcuda.so.1: tests/unit/fake_cuda.c tests/unit/fake_cuda.h
$(B)/tests/fake/libnvidia-ml.so.1: tests/unit/fake_nvml.c tests/unit/fake_nvml.h
$(B)/tests/fake/libnvidia-ml-old.so.1: tests/unit/fake_nvml.c tests/unit/fake_nvml.h
$(FAKES): Makefile
	@mkdir -p $(@D)
	@echo "  link  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(findstring -old,$(notdir $@)),-DOLD) -shared -o $@ $(filter %.c,$^) -lpthread

test-programs: all $(TESTS) $(B)/tests/mutants $(FAKES)

# The verifier is asked about every shipped kernel with one operation broken, on two processors.
MUTANT_SOURCES := $(wildcard tests/mutants/*.c)
mutants: $(B)/tests/mutants
	$(B)/tests/mutants $(if $(WRITE),--write)

$(B)/tests/mutants: $(MUTANT_SOURCES) tests/mutants/mutants.h $(B)/libbaton.a Makefile
	@mkdir -p $(@D)
	@echo "  cc    tests/mutants"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(MUTANT_SOURCES) $(B)/libbaton.a $(LDLIBS)

# The compiler once more, with a call in each basic block, for the test that counts them.
COUNTED := $(filter-out src/cli/% src/job/% src/bench/% src/emu/% rt/%,$(SOURCES))
$(B)/tests/growth_test: $(COUNTED:%.c=$(B)/count/%.o)
$(B)/tests/growth_test: tests/unit/growth_test.c Makefile
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(COUNTED:%.c=$(B)/count/%.o) $(LDLIBS)

$(B)/count/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -w -fsanitize-coverage=trace-pc -MMD -MP -c -o $@ $<

# Asks the questions of `baton check` about integer sets without the command around them.
$(B)/tests/sets_tool: tests/unit/sets_tool.c $(SETS:%.c=$(B)/%.o) $(B)/libbaton.a Makefile
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< $(SETS:%.c=$(B)/%.o) $(B)/libbaton.a $(ISL) $(LDLIBS)

# What reads JSON, which the library does not.
$(B)/tests/json_test $(B)/tests/peer_test $(B)/tests/bench_tool: $(B)/tests/%: tests/unit/%.c $(patsubst %.c,$(B)/%.o,$(filter-out src/cli/%,$(READERS))) $(JSON:%.c=$(B)/%.o) $(B)/libbaton.a Makefile
	@mkdir -p $(@D)
	@echo "  cc    $<"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $(filter %.c %.o %.a,$^) $(JANSSON) $(LDLIBS)

# The sanitizer build runs all but the slowest of the same tests; `make asan` runs them all.
test:
	$(MAKE) --no-print-directory -j$(JOBS) test-programs
	$(MAKE) --no-print-directory -j$(JOBS) test-programs SAN=1 B=$(B)/asan
	python3 tests/run.py --build $(B) --sanitized $(B)/asan

asan:
	$(MAKE) --no-print-directory -j$(JOBS) test-programs SAN=1 B=$(B)/asan
	python3 tests/run.py --build $(B)/asan --asan

# The fuzzer needs clang's runtime, and its own objects: the parser and what it stands on.
FUZZ_SOURCES := $(wildcard src/base/*.c src/ast/*.c)
fuzz: $(B)/fuzz/parse_fuzz
	@mkdir -p $(B)/fuzz/corpus
	cp kernels/*/*.co $(B)/fuzz/corpus/
	@echo "  fuzz  the parser, $(FUZZ_SECONDS) seconds"
	@$(B)/fuzz/parse_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=10 \
	    -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix=$(B)/fuzz/ $(B)/fuzz/corpus \
	    > $(B)/fuzz/log 2>&1 || { tail -40 $(B)/fuzz/log; exit 1; }
	@grep '^stat::' $(B)/fuzz/log

$(B)/fuzz/parse_fuzz: tests/fuzz/parse_fuzz.c $(FUZZ_SOURCES) $(wildcard src/base/*.h src/ast/*.h)
	@mkdir -p $(@D)
	@command -v clang >/dev/null || { echo "make fuzz needs clang: sudo sh tools/install.sh"; exit 1; }
	clang -std=gnu11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	    -o $@ tests/fuzz/parse_fuzz.c $(FUZZ_SOURCES) -lm

size:
	@sh tools/size.sh

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/baton/kernels
	install -m 755 $(B)/baton $(DESTDIR)$(PREFIX)/bin/baton
	install -m 644 include/baton.h $(DESTDIR)$(PREFIX)/include/baton.h
	install -m 644 $(B)/libbaton.a $(DESTDIR)$(PREFIX)/lib/libbaton.a
	install -m 755 $(B)/libbaton.so $(DESTDIR)$(PREFIX)/lib/libbaton.so
	sed 's/@VERSION@/$(VERSION)/' docs/baton.1 > $(DESTDIR)$(PREFIX)/share/man/man1/baton.1
	cp -r kernels/. $(DESTDIR)$(PREFIX)/share/baton/kernels
	install -d $(DESTDIR)$(PREFIX)/share/baton/bench/workloads
	install -m 644 bench/*.py bench/*.co $(DESTDIR)$(PREFIX)/share/baton/bench
	install -m 644 bench/workloads/* $(DESTDIR)$(PREFIX)/share/baton/bench/workloads

clean:
	rm -rf $(B)

-include $(OBJECTS:.o=.d) $(COMMAND:%.c=$(B)/%.d) $(TESTS:=.d) $(COUNTED:%.c=$(B)/count/%.d)

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A test is a test, an example, or a fuzz test with its seeds.
type test struct {
	dir, program, name string
	took               time.Duration
	reaches            map[int]bool // numbers of mutants
}

// A test with a mutant is considered hanging after this many times its usual time, plus the patience.
const times = 10

// reached builds the test programs of folders one after the other, since the go command uses all
// processors. At the same time it runs each of their tests without mutants.
func (b *built) reached(dirs []string, workers int, w io.Writer) ([]*test, error) {
	of := make([][]*test, len(dirs))
	var mu sync.Mutex // guards w
	some := newPool(workers)
	for i, dir := range dirs {
		program, err := b.tests(dir)
		if err != nil {
			return nil, errors.Join(err, some.wait())
		}
		if program == "" {
			continue
		}
		some.do(func() (err error) {
			var said bytes.Buffer
			of[i], err = b.reach(dir, program, &said)
			mu.Lock()
			defer mu.Unlock()
			_, wrong := said.WriteTo(w)
			return errors.Join(err, wrong)
		})
	}
	err := some.wait()
	return slices.Concat(of...), err
}

// reach runs each test of a program without mutants. It returns those that pass, with what they reach.
// It reports to w the tests that fail, and those that take longer than the budget of a mutant.
func (b *built) reach(dir, program string, w io.Writer) (all []*test, err error) {
	out, err := b.run(context.Background(), &test{dir: dir, program: program}, 0, "", "-test.list=.")
	if err != nil {
		return nil, fmt.Errorf("%s: the list of its tests: %w\n%s", dir, err, out)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		if !regexp.MustCompile(`^(Test|Example|Fuzz)\w*$`).MatchString(name) {
			continue
		}
		t := &test{dir: dir, program: program, name: name, reaches: make(map[int]bool)}
		trace := filepath.Join(b.tmp, filepath.Base(program)+".trace")
		began := time.Now()
		out, err := b.runTests(context.Background(), []*test{t}, 0, trace, b.budget)
		t.took = time.Since(began)
		if err != nil {
			fmt.Fprintf(w, "not used: %s of %s fails or is slow without any mutant: %v\n%s\n", name, dir, err, tail(out))
		} else if err := t.read(trace); err != nil {
			return nil, err
		} else if len(t.reaches) > 0 {
			all = append(all, t)
		}
		if err := os.RemoveAll(trace); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// read reads the numbers that a run has reached.
func (t *test) read(trace string) error {
	text, err := os.ReadFile(trace)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		t.reaches[n] = true
	}
	return nil
}

// runTests runs tests of one program, until the first fails.
func (b *built) runTests(ctx context.Context, some []*test, mutant int, trace string, limit time.Duration) ([]byte, error) {
	var names []string
	for _, t := range some {
		names = append(names, t.name)
	}
	ctx, cancel := context.WithTimeout(ctx, limit+b.patience) // for a program that does not stop by itself
	defer cancel()
	return b.run(ctx, some[0], mutant, trace, "-test.run=^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.timeout="+limit.String())
}

// run runs a test program in its folder, and removes its temporary files. It limits the memory, since
// a mutant may allocate without end.
func (b *built) run(ctx context.Context, t *test, mutant int, trace string, args ...string) ([]byte, error) {
	tmp, err := os.MkdirTemp(b.tmp, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	words := append([]string{t.program}, args...)
	if sh, err := exec.LookPath("sh"); err == nil {
		words = append([]string{sh, "-c", `ulimit -v 8000000 2>/dev/null; exec "$0" "$@"`}, words...)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = filepath.Join(b.root, filepath.FromSlash(t.dir))
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "MILLRACE_MUTANT="+strconv.Itoa(mutant), "MILLRACE_MUTANT_TRACE="+trace)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err = cmd.Run(); errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the test has passed, and left a process behind
	}
	return out.Bytes(), err
}

// tail returns the last lines of a text.
func tail(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

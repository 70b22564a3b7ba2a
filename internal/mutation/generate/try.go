package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// try runs the tests that reach a mutant, those of its package first and the fast ones before the slow
// ones, up to the budget, measured in their usual times. It returns the outcome, and what failed.
func (b *built) try(n int, all []*test) (what outcome, by string, err error) {
	m := b.mutants[n]
	var some []*test
	for _, t := range all {
		if t.reaches[n] {
			some = append(some, t)
		}
	}
	if len(some) == 0 {
		return uncovered, "", nil
	}
	slices.SortStableFunc(some, func(x, y *test) int {
		if own := m.dir(); (x.dir == own) != (y.dir == own) {
			if x.dir == own {
				return -1
			}
			return 1
		}
		return int(x.took - y.took)
	})
	for budget := b.budget; len(some) > 0 && budget > 0; {
		chunk, took := first(some)
		some, budget = some[len(chunk):], budget-took
		by, err := b.kills(chunk, n, times*took+b.patience)
		if err != nil {
			return invalid, "", err
		}
		if by != "" {
			return killed, by, nil
		}
	}
	return survived, "", nil
}

// kills runs tests with a mutant, and returns what failed twice, or "". If they time out, it also runs
// them without the mutant: a timeout only counts if the machine is not merely busier than before.
func (b *built) kills(chunk []*test, n int, limit time.Duration) (by string, err error) {
	for chances := 0; ; {
		out, err := b.runTests(context.Background(), chunk, n, "", limit)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, context.DeadlineExceeded) {
			return "", err
		}
		if err == nil {
			return "", nil
		}
		by := failed(out, err)
		if by != hangs {
			if again, err := b.again(chunk, n, limit, by); again || err != nil {
				return chunk[0].dir + ": " + by, err
			}
			if chances++; chances == 3 {
				return "", nil
			}
			continue
		}
		began := time.Now()
		out, err = b.runTests(context.Background(), chunk, 0, "", limit)
		switch took := time.Since(began); {
		case err == nil && times*took <= limit:
			return chunk[0].dir + ": " + by, nil
		case err == nil:
			limit = times*took + b.patience
		case failed(out, err) == hangs:
			limit *= 2
		default:
			return "", fmt.Errorf("%s fails now without any mutant: %w\n%s", chunk[0].dir, err, tail(out))
		}
	}
}

// again repeats what failed with a mutant, and reports whether it fails again. A test that depends on
// the speed of the machine may have failed by chance.
func (b *built) again(chunk []*test, n int, limit time.Duration, by string) (bool, error) {
	if i := slices.IndexFunc(chunk, func(t *test) bool { return t.name == by }); i >= 0 {
		chunk = chunk[i : i+1]
	}
	_, err := b.runTests(context.Background(), chunk, n, "", limit)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, context.DeadlineExceeded) {
		return false, err
	}
	return err != nil, nil
}

// first returns the tests to run next in one process: one, or as many of the same program as take at
// most a second together.
func first(some []*test) (chunk []*test, took time.Duration) {
	for _, t := range some {
		if len(chunk) > 0 && (t.program != chunk[0].program || took+t.took > time.Second) {
			break
		}
		chunk, took = append(chunk, t), took+t.took
	}
	return chunk, took
}

// Instead of a test, one of these may have failed.
const (
	hangs = "time is up"
	ended = "the program ended"
)

// failed says what failed: a test, a timeout, or the program.
func failed(out []byte, err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && !exit.Exited() {
		return hangs // the program did not stop by itself either
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return strings.Fields(name)[0]
		}
		if strings.HasPrefix(line, "panic: test timed out") {
			return hangs
		}
	}
	return ended
}

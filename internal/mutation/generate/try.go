package main

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// try runs the tests that reach a mutant, those of its package first and the fast ones before the
// slow ones, for at most as long as budget if they were unmutated. It returns the outcome, and
// the tests that killed it: a few that ran together, one of which failed.
func (b *built) try(n int, all []*test, budget time.Duration) (what outcome, by string, err error) {
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
	for len(some) > 0 && budget > 0 {
		chunk, took := first(some)
		some, budget = some[len(chunk):], budget-took
		limit := times*took + b.patience
		out, err := b.runTests(context.Background(), chunk, n, "", limit)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, context.DeadlineExceeded) {
			return invalid, "", err
		}
		if err != nil {
			return killed, failed(chunk, out), nil
		}
	}
	return survived, "", nil
}

// first returns the tests to run next together: of one program, one or as many as take no
// longer than a second.
func first(some []*test) (chunk []*test, took time.Duration) {
	for _, t := range some {
		if len(chunk) > 0 && (t.program != chunk[0].program || took+t.took > time.Second) {
			break
		}
		chunk, took = append(chunk, t), took+t.took
	}
	return chunk, took
}

// failed names the test that failed, or that did not end.
func failed(chunk []*test, out []byte) string {
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return chunk[0].dir + ": " + strings.Fields(name)[0]
		}
		if strings.HasPrefix(line, "panic: test timed out") {
			return chunk[0].dir + ": time is up"
		}
	}
	return chunk[0].dir + ": it ended"
}

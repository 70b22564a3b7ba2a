package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/long"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the random tests")
	programs = flag.Int("programs", long.Of(120, 600), "how many programs the random tests make")
)

func rerun(t *testing.T) string {
	return fmt.Sprintf("rerun: go test ./internal/model -run '^%s$' -seed %d -programs %d", t.Name(), *seed, *programs)
}

// checkAll makes programs and tries each of them. It reduces the first one that fails and
// prints it.
func checkAll(t *testing.T, table []operator, try func(p *Program, h History, seed uint64) error) {
	t.Helper()
	used := make(map[string]int)
	for n := 0; n < *programs || n < 10**programs && missing(table, used) != ""; n++ {
		rng := rand.New(rand.NewPCG(*seed, uint64(n)))
		want := ""
		if n >= *programs { // until each operator was in a program
			want = missing(table, used)
		}
		p, h := makeOf(table, rng, 3+n%14, slices.IndexFunc(table, func(op operator) bool { return op.name == want }))
		for _, x := range p.nodes {
			used[x.op.name]++
		}
		s := rng.Uint64()
		if try(p, h, s) == nil {
			continue
		}
		// Removing a record changes all later choices, so try a few schedules instead of
		// the one that failed.
		fails := func(p *Program, h History) bool {
			for k := range uint64(8) {
				if try(p, h, s+k) != nil {
					return true
				}
			}
			return false
		}
		p, h = Shrink(p, h, fails)
		for k := range uint64(8) {
			if err := try(p, h, s+k); err != nil {
				t.Fatalf("program %d, made small:\n%s  sent: %v\n%v\n%s", n, p, h, err, rerun(t))
			}
		}
	}
	if name := missing(table, used); name != "" {
		t.Errorf("%s was never in a program", name)
	}
}

// missing returns the name of an operator that was in no program, or "".
func missing(table []operator, used map[string]int) string {
	for _, op := range table {
		if used[op.name] == 0 {
			return op.name
		}
	}
	return ""
}

// drawnIn returns the operators to draw for flows that are run in a way. In production these
// are the operators that use only one goroutine.
func drawnIn(way Way) []operator {
	if way == Simulated || way == Whole {
		return operators()
	}
	return slices.DeleteFunc(operators(), func(op operator) bool { return op.concurrent })
}

// TestAgainstModel compares random programs with the model, at every cut of every slice and
// after every step. It catches operators that compute wrong results; see the package comment.
func TestAgainstModel(t *testing.T) {
	for way := range ways {
		t.Run(way.String(), func(t *testing.T) {
			checkAll(t, drawnIn(way), func(p *Program, h History, seed uint64) error { return Verify(p, h, way, seed) })
		})
	}
}

// TestWaysAgree runs random programs in two ways and compares the results. It catches results
// that depend on the way; see the package comment.
func TestWaysAgree(t *testing.T) {
	checkAll(t, drawnIn(Live), Agree)
}

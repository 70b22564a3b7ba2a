//go:build linux && amd64

package main

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
)

// TestMain is also the program that is traced.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-traced") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTrace counts the instructions of a loop that calls four functions for 7 of 8 elements, and two for the others.
func TestTrace(t *testing.T) {
	f := forms()[0]
	if f.job != "Chain/data=predictable/batch=256" || f.name != "hand" {
		t.Fatalf("the first form is %s, %s", f.job, f.name)
	}
	p, err := trace(f, 64)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this system does not let a program trace another one")
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.elements != 64 {
		t.Errorf("%d elements", p.elements)
	}
	if per := p.total / p.elements; per < 20 || per > 60 {
		t.Errorf("%d instructions an element, in %v", per, p.at)
	}
	const functions = "github.com/millrace/millrace/bench/internal/jobs.newChain."
	for name, times := range map[string]int{"func1": 64, "func3": 56} { // each executes the same instructions in each call
		if n := p.at[functions+name]; n == 0 || n%times != 0 {
			t.Errorf("%d instructions in %s, which is called %d times: %v", n, name, times, p.at)
		}
	}
}

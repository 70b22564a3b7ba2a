package panics

import (
	"errors"
	"strings"
	"testing"
)

// TestCatch checks that a panic is an error with the stack, and that other results stay as they are.
func TestCatch(t *testing.T) {
	other := errors.New("other")
	do := func(f func()) (err error) {
		defer Catch("doing it", &err)
		f()
		return other
	}
	if err := do(func() {}); err != other {
		t.Errorf("without a panic: %v", err)
	}
	if err := do(func() { panic("no") }); err == nil || !strings.HasPrefix(err.Error(), "doing it panicked: no\n") || !strings.Contains(err.Error(), "panics_test.go") {
		t.Errorf("with a panic: %v", err)
	}
}

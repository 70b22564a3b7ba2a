package jobs

import "testing"

// TestCompile checks that a program with operators compiles and is larger than one without.
func TestCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the linker three times")
	}
	run := compile(2)
	defer run.Close()
	if n := run.Do(); n != compiledOperators {
		t.Errorf("Do() = %d events, want %d", n, compiledOperators)
	}
	if size := run.Left(); size < 10_000 || size > 1_000_000 {
		t.Errorf("two pairs of operators are %.0f bytes", size)
	}
}

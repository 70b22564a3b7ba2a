package engine

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestStepsArePlanned fails if a variable was renamed here and not in the linker flags: the
// linker accepts a name that does not exist, and the tests would run in the usual way twice.
func TestStepsArePlanned(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the binary does not say how it was linked")
	}
	for _, s := range info.Settings {
		if s.Key == "-ldflags" && strings.Contains(s.Value, "/internal/engine.") && stepsArePlanned == "" {
			t.Errorf("linked with %s, and stepsArePlanned is empty", s.Value)
		}
	}
}

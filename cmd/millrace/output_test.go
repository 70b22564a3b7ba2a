package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputLost runs commands whose output cannot be written. It fails if one of them ends as if it had been, or repeats the
// reason for each line.
func TestOutputLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	_, urls := startTools(t, "clock")
	calls := callsFile(t, 20, func(int) string { return `"operation":"echo","arguments":{"text":"x"}` })
	config := writeConfig(t, filepath.Join(t.TempDir(), "c.json"), fmt.Sprintf(`{"state":%q,"tools":[{"url":%q}]}`, t.TempDir(), urls[0]))
	for _, args := range [][]string{
		{"help"}, {"check", config}, {"conform", "cases"}, {"run", "--tool", urls[0], calls},
	} {
		cmd := millrace(t, args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &said
		_ = cmd.Run() // its status is checked below
		if code, n := cmd.ProcessState.ExitCode(), strings.Count(said.String(), "no space left"); code != 1 || n != 1 {
			t.Errorf("%s ends with %d and says %d times why: %s", args, code, n, &said)
		}
	}
}

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

// TestRunInterrupted interrupts a run that has made three of its lines, with room for two calls at once. Each of the three has a
// result, and the exit status is 1 because the other lines were not made.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	_, urls := startTool(t)
	file := callsFile(t, 50, func(i int) string {
		if i == 0 {
			return `"operation":"echo","arguments":{"text":"x"}`
		}
		return `"operation":"sleep","arguments":{"ms":60000}`
	})
	cmd := millrace(t, "run", "--ahead", "2", "--tool", urls[0], "--tool", urls[1], file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	first, err := out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	said := stderr.String()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said, ": interrupted: ") || !strings.Contains(said, " lines were made, and those from this one on were not") {
		t.Errorf("exit %d, %v: %s", code, err, said)
	}
	made := bytes.Count(rest, []byte("\n")) + 1
	if readResults(t, append(first, rest...), made); made > 3 {
		t.Errorf("%d results: %s", made, said)
	}
}

// TestRunUnknownResult checks that the result of a call that the runtime has taken although making it failed is printed, and
// leaves the room for other calls as it is.
func TestRunUnknownResult(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := &runner{status: newProgress(io.Discard, false), room: make(chan struct{}, 1), out: bufio.NewWriter(&out), calls: map[agentproto.CallKey]*made{}}
	text := "done"
	key := agentproto.CallKey{GroupID: "t", ID: "1"}
	err := r.print(func(yield func(*agentproto.Resolution) bool) {
		yield(&agentproto.Resolution{Key: key, Result: &agentproto.ToolResult{Text: &text}})
	})
	if err != nil || r.made() != 0 {
		t.Errorf("%v, %d calls made", err, r.made())
	}
	if got := readResults(t, out.Bytes(), 1)["1"]; got.Text != text {
		t.Errorf("the result is %+v", got)
	}
}
